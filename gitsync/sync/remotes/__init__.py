"""Folders in other repositories: fetched where the policies allow it, and rendered with those that name them."""
