"""Backups of an Agent's volumes: which are due, what they are made of, and how far they are. Pure."""
