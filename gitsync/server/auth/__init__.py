"""Authentication and request protection of the dashboard."""
