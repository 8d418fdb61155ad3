"""Simulated controllers of Deployments, StatefulSets, DaemonSets and Jobs."""
