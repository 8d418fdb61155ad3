"""Rendering of a snapshot."""

from __future__ import annotations

from typing import Protocol

from gitsync.objects.application import Application
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


class RenderStore(Protocol):
    """
    The last build of each Application, over restarts.

    Called by the first reconcile of a source, and after each render. What cannot be read back is rendered again. No
    Application gets a build of another one, which may have other credentials.
    """

    def load(self, app: Application) -> tuple[str, Build] | None:
        """Return the commit and the build that were kept last for this source, None where there are none."""
        ...

    def keep(self, app: Application, commit: str, build: Build) -> None:
        """Keep a build instead of the one before; a failure is not raised."""
        ...
