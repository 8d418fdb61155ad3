"""A Kubernetes API server in this process, for demos and tests. Knows nothing of the controller."""
