"""The custom resource definitions of gitsync, as they are installed."""

from __future__ import annotations

from importlib import resources

from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all


def application_crd() -> Manifest:
    """Return the CustomResourceDefinition of Application."""
    text = resources.files(__package__).joinpath("application.yaml").read_text(encoding="utf-8")
    manifest: Manifest = read_all(text, "application.yaml")[0]
    return manifest
