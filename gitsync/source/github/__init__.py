"""Signing in at GitHub as an App."""
