"""Default values of built-in kinds."""
