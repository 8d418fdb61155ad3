"""Agents compared between environments, such as dev, staging and prod. Pure."""
