"""The versioned object store and its SQLite persistence."""
