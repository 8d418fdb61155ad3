"""Clients of optional servers outside the cluster: Prometheus and a chat completion endpoint."""
