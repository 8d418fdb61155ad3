"""Renders on the command line: their options, and folders of other repositories."""
