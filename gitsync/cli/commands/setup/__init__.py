"""Commands that prepare a cluster for the controller."""
