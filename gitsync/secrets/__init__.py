"""Secrets that are encrypted in Git: SOPS with age. Pure: keys and files are arguments."""
