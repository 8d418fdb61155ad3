"""A GitOps sync controller for AI-agent manifests."""

__version__ = "0.1.0"
