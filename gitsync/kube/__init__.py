"""Kubernetes knowledge as pure functions and tables: what the API server does that no client can ask it."""
