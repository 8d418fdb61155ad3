"""What objects have otherwise than Git declares, with the lines in Git and the class of what others did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gitsync.merge.schema import Schema, builtin
from gitsync.objects.change import ABSENT, Action, Change, Difference
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, group_of
from gitsync.objects.phase import SyncStatus
from gitsync.objects.record import Step
from gitsync.objects.ref import ObjectRef
from gitsync.plan.display import whole_object
from gitsync.plan.risk.drift import DriftRisk, drift_risk
from gitsync.plan.undeclared import undeclared
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.queries.fields import FIELDS, FieldOrigin, FieldRow, field_row, origins_of
from gitsync.server.queries.objects import (
    ResourceRow,
    drifted,
    foreign_fields,
    ignored_counts,
    resource_row,
)

_PAGE = 60_000
_LEAST = 1500
"""Characters of content on one page, and of one object at least."""


@dataclass(frozen=True, slots=True)
class ObjectDifferences:
    """
    What one object has otherwise than Git declares.

    ``foreign`` are fields that others added; ``quiet`` counts the differences that are not drift; ``drift`` is the
    class of what was changed in the cluster.
    """

    row: ResourceRow
    fields: list[FieldRow]
    more: int
    foreign: list[FieldRow]
    quiet: list[tuple[str, int]]
    drift: DriftRisk | None
    content: Content | None
    origin: FieldOrigin | None
    follows: ObjectRef | None
    running: tuple[str, ...] = ()
    """What its Pods run otherwise than it declares."""


def unpaired(view: ApplicationView) -> list[ResourceView]:
    """Return the objects of a view without those that a generated object follows: that one shows both."""
    followed = {item.change.follows for item in view.resources}
    return [item for item in view.resources if item.ref not in followed or item.change.action is not Action.PRUNE]


def object_differences(
    backend: Backend, view: ApplicationView, items: Sequence[ResourceView]
) -> list[ObjectDifferences]:
    """Return what is shown of objects that differ, with the files and lines that their fields come from."""
    origins = origins_of(backend, view, (item.change for item in items if item.sync != SyncStatus.SYNCED))
    drift = view.status.get("drift") or {}
    first_seen = str(drift.get("detectedAt", "")) if drift.get("objects") else ""
    return [
        ObjectDifferences(
            row=resource_row(item),
            fields=[
                field_row(difference, origins.of(item.ref, difference.path), item.change.live, first_seen, len(items))
                for difference in drifted(item)[:FIELDS]
            ],
            more=max(len(drifted(item)) - FIELDS, 0),
            foreign=[field_row(difference, objects=len(items)) for difference in foreign_fields(item)[:FIELDS]],
            quiet=[*ignored_counts(item), *_defaulted(item)],
            drift=changed_in_cluster(view, item),
            content=content_of(item.change, len(items)),
            origin=next(iter(origins.of(item.ref)), None),
            follows=item.change.follows,
            running=tuple(visible(f"{finding.pod.name} {finding.message}") for finding in item.running),
        )
        for item in items
    ]


def changed_in_cluster(view: ApplicationView, item: ResourceView) -> DriftRisk | None:
    """Return the class of what others did to an object, None where it differs because of a new commit only."""
    # the revision is applied already: what differs was changed afterwards
    is_applied = view.plan is not None and view.status.get("revision", {}).get("applied") == view.plan.revision
    by_others = any(owner.manager != FIELD_MANAGER for difference in drifted(item) for owner in difference.owners)
    is_update = item.change.action in (Action.UPDATE, Action.CREATE)
    is_drift = item.change.is_repair or (is_update and (by_others or is_applied))
    added = [extra for extra in item.change.differences if extra.kind is Difference.EXTRA and extra.owners]
    removed = [difference for difference in added if item.change.is_repair or difference.pointer in item.change.removed]
    change = item.change if is_drift else None
    foreign = [*foreign_fields(item), *removed]
    # Git changed the object too: what others added to it still counts
    if change is None:
        return drift_risk(_unchanged(item), foreign) if foreign else None
    return drift_risk(change, foreign)


def _defaulted(item: ResourceView) -> list[tuple[str, int]]:
    desired = item.change.desired
    live = item.change.live
    if desired is None or live is None:
        return []
    differences = undeclared(desired, live, _schema_of(live))
    count = sum(difference.kind is Difference.DEFAULTED for difference in differences)
    return [("defaulted by the API server", count)] if count else []


def _schema_of(live: Manifest) -> Schema | None:
    api_version = str(live.get("apiVersion") or "")
    # the shipped schemas: a page asks no API server for those of custom resources
    return builtin().for_kind(group_of(api_version), api_version.rpartition("/")[2], str(live.get("kind") or ""))


def _unchanged(item: ResourceView) -> Change:
    """Return the step of an object as if Git and the cluster had the same declared fields."""
    return replace(item.change, differences=(), live=item.change.live or {})


@dataclass(frozen=True, slots=True)
class Content:
    """The manifest of an object as YAML; ``mark`` is ``+`` for a created and ``-`` for a deleted one."""

    mark: str
    text: str
    hidden_lines: int = 0


def content_of(change: Change, objects: int = 1) -> Content | None:
    """Return the content of the object that a step creates or deletes, cut so that many fit one page."""
    whole = whole_object(change)
    if whole is None:
        return None
    return _content(whole.live if whole.desired is ABSENT else whole.desired, whole.desired is ABSENT, objects)


def recorded_content(step: Step, objects: int = 1) -> Content | None:
    """Return the content that history keeps of a created or deleted object."""
    whole = next((item for item in step.differences if not item.get("path")), None)
    if whole is None:
        return None
    is_deleted = whole.get("desired") is None
    return _content(whole["live"] if is_deleted else whole["desired"], is_deleted, objects)


def manifest_text(manifest: Manifest) -> str:
    """Return a manifest as YAML with invisible characters escaped."""
    from gitsync.render.yaml.writer import write

    return visible(write(manifest))


def _content(manifest: Manifest, is_deleted: bool, objects: int) -> Content:
    text = manifest_text(manifest)
    limit = max(_PAGE // max(objects, 1), _LEAST)
    shown = text[:limit]
    return Content("-" if is_deleted else "+", shown.rstrip("\n"), text[limit:].count("\n"))
