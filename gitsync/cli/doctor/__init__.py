"""What ``gitsync doctor`` checks: this machine, the cluster, the rights, and each Application."""
