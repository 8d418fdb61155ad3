"""Prometheus queries that decide whether a newly applied commit is good."""
