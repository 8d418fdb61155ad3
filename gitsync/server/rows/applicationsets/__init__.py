"""Rows about ApplicationSets. Pure."""
