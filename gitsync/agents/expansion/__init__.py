"""Expansion: from one Agent to its children, as a pure function."""
