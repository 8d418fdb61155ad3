"""Tables: what ``kubectl get`` shows of each kind, computed by the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.objects.manifest import Manifest

Cell = Callable[[Manifest, float], Any]
"""The value of one column for an object, at a time."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``priority`` above zero shows only with ``-o wide``."""

    name: str
    cell: Cell
    description: str = ""
    kind: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """Return its definition as the Table carries it."""
        return {
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind, and what time it is."""

    columns: Sequence[Column]
    now: float

    def table(self, objects: Sequence[Manifest], revision: str, version: str, include: str) -> dict[str, Any]:
        """Return the Table of some objects; ``include`` says what of each object comes along."""
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": {"resourceVersion": revision},
            "columnDefinitions": [column.definition() for column in self.columns],
            "rows": [self._row(obj, version, include) for obj in objects],
        }

    def _row(self, obj: Manifest, version: str, include: str) -> dict[str, Any]:
        cells = [column.cell(obj, self.now) for column in self.columns]
        row: dict[str, Any] = {"cells": cells, "object": None}
        if obj["kind"] == "Pod" and (ended := _ENDINGS.get((obj.get("status") or {}).get("phase", ""))):
            row["conditions"] = [ended]
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": f"meta.k8s.io/{version}",
                "metadata": _without_internal(obj["metadata"]),
            }
        return row


_ENDINGS = {
    phase: {"type": "Completed", "status": "True", "reason": phase, "message": message}
    for phase, message in (
        ("Succeeded", "The pod has completed successfully."),
        ("Failed", "The pod failed."),
    )
}
"""Conditions of a row with a pod that has ended; clients may show it greyed out."""
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _without_internal(meta: dict[str, Any]) -> dict[str, Any]:
    """Return metadata without the annotation that the API server's internal form keeps as a field."""
    annotations = meta.get("annotations")
    if not annotations or _TEMPLATE_GENERATION not in annotations:
        return meta
    kept = {key: value for key, value in annotations.items() if key != _TEMPLATE_GENERATION}
    rest = {key: value for key, value in meta.items() if key != "annotations"}
    return {**rest, "annotations": kept} if kept else rest
