"""Bring one application to what its Git revision declares; ``pipeline`` is the page to read first."""
