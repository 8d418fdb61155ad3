"""Commands that show what the dashboard shows, read from its API."""
