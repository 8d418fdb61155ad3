"""The page ``/metrics``."""
