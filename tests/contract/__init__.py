"""One suite for two clusters: the sandbox, and a real control plane named by ``GITSYNC_TEST_KUBECONFIG``."""
