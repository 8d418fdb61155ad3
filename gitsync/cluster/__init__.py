"""The cluster edge: the only package that imports the Kubernetes client. Its errors never leave it."""
