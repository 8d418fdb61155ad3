"""Reads and writes of stored objects: validation order, preconditions, managedFields, deletion."""
