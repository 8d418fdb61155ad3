"""Reconcile ApplicationSets: files from Git, expansion, comparison, and the writes of Applications."""
