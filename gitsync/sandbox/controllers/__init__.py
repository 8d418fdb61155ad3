"""The controllers of the sandbox's cluster: workloads, simulated nodes, garbage collection, namespaces."""

from gitsync.sandbox.controllers.manager import Controllers

__all__ = ["Controllers"]
