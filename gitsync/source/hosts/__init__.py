"""Hosts of Git repositories by their HTTP APIs: the port ``CodeHost`` for Gitea, Forgejo, GitHub and GitLab."""
