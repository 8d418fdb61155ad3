"""Rendering of a snapshot."""

from __future__ import annotations

from typing import Protocol

from gitsync.ports.source import Snapshot
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces


class Renderer(Protocol):
    """
    Render a path of a snapshot.

    Called by a reconcile when commit, path or renderer changed, and by the provenance service for the steps that set
    a field.
    """

    def render(self, snapshot: Snapshot, path: str, renderer: str) -> Build:
        """Return the manifests and the files read; raise InvalidInput with ``file:line``."""
        ...

    def trace(self, snapshot: Snapshot, path: str, renderer: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, in order; the empty field means the object."""
        ...
