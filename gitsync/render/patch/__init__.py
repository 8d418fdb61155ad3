"""Patches of a build: strategic merge, JSON patch, and the schemas that strategic merges follow."""
