"""Sets and trees for tests of the expansion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gitsync.applicationsets.expand import Expansion, expand
from gitsync.applicationsets.model import parse_application_set
from gitsync.objects.manifest import Manifest
from gitsync.source.local import FolderTree

REPO = "https://git.example.com/shop.git"
TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "{{name}}"},
    "spec": {"source": {"repoURL": REPO, "path": "apps/{{name}}"}},
}


def manifest(*generators: dict[str, Any], template: dict[str, Any] = TEMPLATE, **spec: Any) -> Manifest:
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "shops", "namespace": "gitsync", "uid": "uid-of-the-set"},
        "spec": {"generators": list(generators), "template": template, **spec},
    }


def listed(*elements: Any) -> dict[str, Any]:
    return {"list": {"elements": list(elements)}}


def git(**members: Any) -> dict[str, Any]:
    return {"git": {"repoURL": REPO, **members}}


def named(text: str) -> dict[str, Any]:
    """Return a template whose Applications have a name of parameters, and nothing else of them."""
    return {"metadata": {"name": text}, "spec": {"source": {"repoURL": REPO}}}


def expanded(given: Manifest, folder: Path | None = None, **files: str) -> Expansion:
    """Expand a set over files, by their path."""
    for path, text in files.items():
        assert folder is not None
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return expand(parse_application_set(given), lambda one: FolderTree(folder or "."))


def names(found: Expansion) -> list[str]:
    return list(found.applications)
