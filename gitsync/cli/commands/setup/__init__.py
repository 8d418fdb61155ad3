"""Commands that prepare a cluster, a machine or a shell for gitsync."""
