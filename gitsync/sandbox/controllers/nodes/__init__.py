"""Simulated nodes: scheduler, kubelet, containers and their logs."""
