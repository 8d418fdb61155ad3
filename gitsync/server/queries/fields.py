"""What pages show of one field that differs: both sides, who owns it, and where in Git it comes from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from gitsync.objects.application import Application, GitSource
from gitsync.objects.change import ABSENT, DRIFT, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.display import NestedChange, changes_in, inner_changes
from gitsync.ports import ApplicationView
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.step_source import BUILD_STEP
from gitsync.render.provenance.trace import Traces, place
from gitsync.server.backend import Backend
from gitsync.server.formatting import value, visible
from gitsync.server.queries.text_diff import MOST_ROWS, TextRow, text_diff

_WIDEST = 4000
"""Characters of one value that are shown; the rest is counted."""
_LEAST_ROWS = 2
"""Rows of a text that differs, on a page of many objects."""
FIELDS = 20
"""Differences of one object that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class FieldOrigin:
    """
    A step that set a field: its name, ``file:line``, and the page of that file at its host, if there is one.

    ``author`` is the commit that wrote the line, where it is known.
    """

    step: str
    where: str
    url: str
    author: Commit | None = None


@dataclass(frozen=True, slots=True)
class NestedDiff:
    """One place inside a value that differs as a whole."""

    path: str
    live: str
    desired: str


@dataclass(frozen=True, slots=True)
class FieldRow:
    """
    One difference of one field.

    ``text`` compares a text of several lines and ``inside`` a container place by place; both are empty for a short
    value. ``steps`` are those that set the field in Git, in order, and ``origin`` is the one that had the last word.
    ``first_seen`` is when the controller saw the drift, where the API server keeps no ``time`` of the write.
    """

    path: str
    kind: str
    live: str
    desired: str
    owner: str
    operation: str
    time: str
    is_drift: bool
    first_seen: str = ""
    text: tuple[TextRow, ...] = ()
    inside: tuple[NestedDiff, ...] = ()
    origin: FieldOrigin | None = None
    steps: tuple[FieldOrigin, ...] = ()


def field_row(
    difference: FieldDifference,
    places: Sequence[FieldOrigin] = (),
    live: Manifest | None = None,
    first_seen: str = "",
    objects: int = 1,
) -> FieldRow:
    """Return the row of a difference of one of ``objects`` on a page; its values are masked already."""
    owner = difference.owners[0] if difference.owners else None
    return FieldRow(
        path=visible(difference.path),
        kind=difference.kind.value,
        owner=visible(owner.manager) if owner else "",
        operation=_operation(owner) if owner else "",
        time=owner.time if owner else "",
        first_seen=first_seen if owner and not owner.time else "",
        is_drift=difference.kind in DRIFT,
        # the last step with a place: what the build itself sets is in no file
        origin=next((place for place in reversed(places) if place.where), None),
        steps=tuple(places) if len(places) > 1 else (),
        inside=tuple(_inside(change) for change in changes_in(difference, live)),
        **_sides(difference.live, difference.desired, objects),
    )


def recorded_field(difference: Mapping[str, Any], objects: int = 1) -> FieldRow:
    """Return the row of a difference as history keeps it; there, what was absent is None."""
    owner: Mapping[str, Any] = next(iter(difference.get("owners") or ()), {})
    live, desired = (ABSENT if difference.get(side) is None else difference[side] for side in ("live", "desired"))
    kind = str(difference.get("kind", ""))
    # the sides of a changed order have the same items: place by place, all of them would differ
    inside = inner_changes(live, desired) if kind != Difference.ORDER.value else ()
    return FieldRow(
        path=visible(difference.get("path", "")),
        kind=kind,
        owner=visible(owner.get("manager", "")),
        operation=visible(owner.get("operation", "")),
        time=visible(owner.get("time", "")),
        is_drift=kind in {item.value for item in DRIFT},
        inside=tuple(map(_inside, inside)),
        **_sides(live, desired, objects),
    )


def places(
    steps: Iterable[FieldSetter], source: GitSource, commit: str, authors: Mapping[str, Commit]
) -> tuple[FieldOrigin, ...]:
    """Return the steps that set a field as they are shown; what the build does by itself has no place."""
    return tuple(
        FieldOrigin(step.step, "", "")
        if step.where == BUILD_STEP
        else FieldOrigin(
            step.step, visible(step.where), file_url(source.repo_url, commit, step.where), authors.get(step.where)
        )
        for step in steps
    )


def _operation(owner: FieldOwner) -> str:
    return f"{owner.operation} of {owner.subresource}" if owner.subresource else owner.operation


def _inside(change: NestedChange) -> NestedDiff:
    return NestedDiff(visible(change.path), _short(change.live), _short(change.desired))


def _sides(live: Any, desired: Any, objects: int) -> dict[str, Any]:
    return {
        "live": _short(live),
        "desired": _short(desired),
        "text": text_diff(live, desired, max(MOST_ROWS // max(objects, 1), _LEAST_ROWS)),
    }


def _short(item: Any) -> str:
    text = value(item)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text)} characters)"


_SSH = re.compile(r"(?:ssh://)?[^@/]+@(?P<host>[^:/]+)(?::\d+/|:|/)(?P<path>.+)")
# what becomes part of a link is a name and a port, and nothing else
_HOST = re.compile(r"[\w.-]+(:\d+)?", re.ASCII)
_PAGES = (  # first match decides, by a part of the host's name
    ("github", "{root}/blob/{commit}/{file}#L{line}"),
    # "/-/" separates pages from the names of groups
    ("gitlab", "{root}/-/blob/{commit}/{file}#L{line}"),
    ("bitbucket.org", "{root}/src/{commit}/{file}#lines-{line}"),
    ("codeberg.org", "{root}/src/commit/{commit}/{file}#L{line}"),
    ("gitea", "{root}/src/commit/{commit}/{file}#L{line}"),
    ("forgejo", "{root}/src/commit/{commit}/{file}#L{line}"),
)


def file_url(repository: str, commit: str, location: str) -> str:
    """Return the page of ``file:line`` at a commit; empty for a host whose pages are not known."""
    host, path = _host_and_path(repository)
    page = next((page for name, page in _PAGES if name in host), "")
    file, _, line = location.rpartition(":")
    if not page or not commit or not line.isdecimal() or not _HOST.fullmatch(host):
        return ""
    root = f"https://{host}/{quote(path.strip('/').removesuffix('.git'))}"
    # names of files in Git are bytes, not necessarily UTF-8
    return page.format(
        root=root, commit=quote(commit, safe=""), file=quote(file.encode(errors="surrogateescape")), line=line
    )


def _host_and_path(repository: str) -> tuple[str, str]:
    """Return the host and path of a repository, without what signs in; empty for what is not on a host."""
    ssh = _SSH.fullmatch(repository)
    if ssh:
        return ssh["host"].lower(), ssh["path"]
    try:
        url = urlsplit(repository)
        port = f":{url.port}" if url.port not in (None, 443) else ""
    # a port that is not a number
    except ValueError:
        return "", ""
    return (f"{url.hostname}{port}", url.path) if url.scheme == "https" else ("", "")


@dataclass(frozen=True, slots=True)
class Origins:
    """The lines that set the fields of some objects at one commit; empty without an Application."""

    app: Application | None = None
    commit: str = ""
    traces: Traces = field(default_factory=dict)
    authors: Mapping[str, Commit] = field(default_factory=dict)

    def of(self, ref: ObjectRef, path: str = "") -> tuple[FieldOrigin, ...]:
        """Return the steps that set a field, in order; without a path, the one that declares the object."""
        steps = self.traces.get(ref, {}).get(path, ())
        return places(steps, self.app.source, self.commit, self.authors) if self.app is not None else ()


def origins_of(backend: Backend, view: ApplicationView, changes: Iterable[Change]) -> Origins:
    """Return the origins of what changes set, of as many fields of each as a page lists."""
    wanted = {change.ref: _fields(change) for change in changes if change.desired is not None}
    app = view.application
    commit = view.plan.revision if view.plan is not None else ""
    if app is None or not wanted or not commit:
        return Origins()
    traces = backend.provenance.trace(app, commit, wanted)
    lines = {place(steps) for fields in traces.values() for steps in fields.values()} - {""}
    return Origins(app, commit, traces, backend.provenance.authors(app, commit, lines))


def _fields(change: Change) -> list[str]:
    differing = [difference for difference in change.differences if difference.kind in DRIFT]
    # what Git does not set has no origin
    return ["", *(difference.path for difference in differing[:FIELDS] if difference.desired is not ABSENT)]
