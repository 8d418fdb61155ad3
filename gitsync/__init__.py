"""A GitOps sync controller for AI-agent manifests."""

__version__ = "0.5.0.dev0"
"""The one place of the version: of the wheel, the image, the definitions, the API, metrics, logs and User-Agent."""
