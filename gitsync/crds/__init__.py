"""The custom resource definitions of gitsync, as they are installed."""

from __future__ import annotations

from importlib import resources

from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all

_NAMES = ("application", "agent", "multiagentsystem")


def application_crd() -> Manifest:
    """Return the CustomResourceDefinition of Application."""
    return _read("application")


def definitions() -> tuple[Manifest, ...]:
    """Return the CustomResourceDefinitions of all kinds of gitsync."""
    return tuple(_read(name) for name in _NAMES)


def _read(name: str) -> Manifest:
    text = resources.files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    manifest: Manifest = read_all(text, f"{name}.yaml")[0]
    return manifest
