"""Build metadata: the annotations about the origin of an object and its changes that ``buildMetadata`` enables."""

from __future__ import annotations

import posixpath
from typing import Any, Final

from gitsync.render.resources.internal_annotations import ORIGIN, TRANSFORMATIONS
from gitsync.render.resources.resource import Resource, Step
from gitsync.render.yaml.writer import write

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "kustomize-(devel)"}
"""The label that kubectl 1.32 writes for ``managedByLabel``."""


def _lines(step: Step) -> list[str]:
    """Return a step as lines of YAML, in the order Kustomize writes them."""
    if step.path:
        return [f"path: {_text(step.path)}"]
    members = {"apiVersion": "builtin", "kind": step.kind, "name": step.name, "namespace": step.namespace}
    by = [f"  {key}: {_text(value)}" for key, value in members.items() if value]
    return [f"configuredIn: {_text(step.configured_in)}", "configuredBy:", *by]


def _text(value: str) -> str:
    return write(value).strip()


def join(folder: str, path: str) -> str:
    """Return a path relative to the folder of the build."""
    return posixpath.normpath(posixpath.join(folder, path))


def annotate(resource: Resource, wanted: frozenset[str]) -> None:
    """Write the annotations that are wanted; the others of their kind are dropped elsewhere."""
    values: dict[str, Any] = {}
    if "originAnnotations" in wanted and resource.source is not None:
        values[ORIGIN] = "".join(f"{line}\n" for line in _lines(resource.source))
    if "transformerAnnotations" in wanted and resource.steps:
        values[TRANSFORMATIONS] = "".join(
            f"{'- ' if number == 0 else '  '}{line}\n"
            for step in resource.steps
            for number, line in enumerate(_lines(step))
        )
    if values:
        meta = resource.editable["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), **values}
