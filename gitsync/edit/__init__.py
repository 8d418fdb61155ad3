"""Edit files in Git so that a field of a rendered object has another value; the edit is proved by rendering. Pure."""
