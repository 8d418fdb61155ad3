"""What the history of a mirror tells of files: who wrote lines, and which commits changed a file."""
