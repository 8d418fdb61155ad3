"""Several controller processes on one machine."""
