"""Pure view models: table rows built from published state and status."""
