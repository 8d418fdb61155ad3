"""Differences that rules leave to others, and the paths that name them."""
