"""ApplicationSets of a file or a cluster for commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitsync.applicationsets.changes import Changes
from gitsync.applicationsets.expand import Expansion
from gitsync.cluster.client import Client, segment
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.conditions import find_condition
from gitsync.objects.keys import API_VERSION, APPLICATION_SET, APPROVE_DELETIONS
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.render.yaml.reader import read_all

_ROOT = f"/apis/{API_VERSION}"
_APPROVE_MANAGER = "gitsync-approve-deletions"
Row = dict[str, Any]


def read_set(file: str, namespace: str) -> Manifest:
    """Return the one ApplicationSet of a file, in a namespace where it names none."""
    try:
        documents = read_all(Path(file).read_bytes(), file)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", location=file) from error
    sets = [one for one in documents if isinstance(one, dict) and one.get("kind") == APPLICATION_SET.kind]
    if len(sets) != 1:
        raise InvalidInput(f"contains {len(sets)} ApplicationSets, not one", location=file)
    return {**sets[0], "metadata": {"namespace": namespace, **metadata_of(sets[0])}}


def all_sets(client: Client, namespace: str = "") -> list[Manifest]:
    """Return the ApplicationSets of one namespace or of all, sorted by name."""
    inside = f"/namespaces/{segment(namespace)}" if namespace else ""
    items: list[Manifest] = client.get(f"{_ROOT}{inside}/applicationsets")["items"]
    return sorted(items, key=lambda item: (at(item, "metadata", "namespace"), at(item, "metadata", "name")))


def one_set(client: Client, namespace: str, name: str) -> Manifest | None:
    """Return one ApplicationSet, None when it does not exist."""
    try:
        found: Manifest = client.get(_path(namespace, name))
    except Rejected as error:
        if error.code == 404:
            return None
        raise
    return found


def approve_deletions(client: Client, namespace: str, name: str, id: str) -> None:
    """Annotate a set with the id of the deletions that are approved, and with nothing else."""
    metadata = {"name": name, "namespace": namespace, "annotations": {APPROVE_DELETIONS: id}}
    body = {"apiVersion": API_VERSION, "kind": APPLICATION_SET.kind, "metadata": metadata}
    client.apply(_path(namespace, name), body, {"fieldManager": _APPROVE_MANAGER, "force": "true"})


def row_of(one: Manifest) -> Row:
    """Return the row of a set in a list."""
    status = one.get("status") or {}
    ready = find_condition(status, "Ready")
    return {
        "namespace": at(one, "metadata", "namespace"),
        "name": at(one, "metadata", "name"),
        "applications": at(status, "counts", "desired", default=0),
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "message": ready.get("message", ""),
    }


def preview_rows(found: Expansion, changes: Changes) -> Iterator[Row]:
    """Yield what happens to each Application: in the order of the elements, then what no element yields."""
    for name, one in found.applications.items():
        path = at(one.manifest, "spec", "source", "path", default=".")
        yield {"action": _action(name, changes), "name": name, "element": one.element, "path": path}
    gone = {
        **dict.fromkeys(changes.deletes, "delete"),
        **dict.fromkeys(changes.held.names if changes.held else (), "delete after approval"),
        **dict.fromkeys(changes.kept, "keep"),
    }
    for name, action in sorted(gone.items()):
        yield {"action": action, "name": name, "element": "", "path": ""}


def _action(name: str, changes: Changes) -> str:
    if name in changes.taken:
        return "refuse: not the set's"
    if name in changes.creates:
        return "create"
    return "update" if name in changes.updates else "keep"


def _path(namespace: str, name: str) -> str:
    return f"{_ROOT}/namespaces/{segment(namespace)}/applicationsets/{segment(name)}"
