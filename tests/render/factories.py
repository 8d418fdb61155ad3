"""Build small trees that are written as texts."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import Build, build
from tests.render.kustomize_cases import MemoryTree

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
  template:
    spec:
      containers:
      - name: web
        image: nginx:1
"""


def config_map(name: str, **data: str) -> str:
    """Return the text of a ConfigMap."""
    lines = "".join(f"  {key}: {value!r}\n" for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n" + (f"data:\n{lines}" if data else "")


def rendered(files: dict[str, str], path: str = "", **options: Any) -> Build:
    """Build a folder of the tree of these texts."""
    return build(MemoryTree({name: text.encode() for name, text in files.items()}), path, **options)


def only(files: dict[str, str], path: str = "", **options: Any) -> dict[str, Any]:
    """Return the one manifest that a folder builds to."""
    (manifest,) = rendered(files, path, **options).manifests
    return manifest


def patched(manifest: str, kustomization: str) -> dict[str, Any]:
    """Return what a kustomization makes of one manifest, which it finds as ``r.yaml``."""
    return only({"r.yaml": manifest, "kustomization.yaml": f"resources: [r.yaml]\n{kustomization}"})


def refusal(files: dict[str, str], path: str = "", **options: Any) -> str:
    """Return the line with which a build is refused."""
    with pytest.raises(InvalidInput) as caught:
        rendered(files, path, **options)
    return str(caught.value)
