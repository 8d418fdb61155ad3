"""Differences and objects as people see them: nested values, and the content of whole objects."""
