"""Where the fields of objects are declared, and who wrote these lines, for pages and the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gitsync.objects.application import Application
from gitsync.objects.change import ABSENT, DRIFT, Change
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.render.provenance.trace import Traces, place
from gitsync.server.backend import Backend
from gitsync.server.rows.fields import FIELDS, Place, places


@dataclass(frozen=True, slots=True)
class Origins:
    """The lines that set the fields of some objects at one commit; empty without an Application."""

    app: Application | None = None
    commit: str = ""
    traces: Traces = field(default_factory=dict)
    authors: Mapping[str, Commit] = field(default_factory=dict)

    def of(self, ref: ObjectRef, path: str = "") -> tuple[Place, ...]:
        """Return the steps that set a field, in order; without a path, the one that declares the object."""
        steps = self.traces.get(ref, {}).get(path, ())
        return places(steps, self.app.source, self.commit, self.authors) if self.app is not None else ()


def origins_of(backend: Backend, view: ApplicationView, changes: Iterable[Change]) -> Origins:
    """Return the origins of what changes set, of as many fields of each as a page lists."""
    wanted = {change.ref: _fields(change) for change in changes if change.desired is not None}
    app, commit = view.application, view.plan.revision if view.plan is not None else ""
    if app is None or not wanted or not commit:
        return Origins()
    traces = backend.provenance.trace(app, commit, wanted)
    lines = {place(steps) for fields in traces.values() for steps in fields.values()} - {""}
    return Origins(app, commit, traces, backend.provenance.authors(app, commit, lines))


def _fields(change: Change) -> list[str]:
    differing = [found for found in change.differences if found.kind in DRIFT]
    return ["", *(found.path for found in differing[:FIELDS] if found.desired is not ABSENT)]
