"""``gitsync appset``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.applicationsets.changes import Changes, changes
from gitsync.applicationsets.expand import Expansion, expand
from gitsync.applicationsets.model import parse_application_set
from gitsync.cli.applications import all_applications, connect
from gitsync.cli.options import (
    NAMESPACE,
    AnyNamespace,
    ClusterTarget,
    Output,
    RequestOrigin,
    command,
    command_group,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.requests import DatabaseRecords, user_name
from gitsync.cluster.client import Client, segment
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.conditions import find_condition
from gitsync.objects.keys import API_VERSION, APPLICATION_SET, APPROVE_DELETIONS
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.user import User
from gitsync.render.yaml.reader import read_all
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import DeclarationRequests
from gitsync.source.local import open_path

appset = command_group("Preview and list ApplicationSets, and approve their deletions.")

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the ApplicationSet.")]
_ROOT = f"/apis/{API_VERSION}"
_APPROVE_MANAGER = "gitsync-approve-deletions"
Row = dict[str, Any]


@appset.command()
@command
def preview(
    place: ClusterTarget,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with the ApplicationSet.")],
    repo: Annotated[str, typer.Option("--repo", help="The folder that Git generators read, instead of Git.")] = ".",
    live: Annotated[bool, typer.Option("--live", help="Compare with the Applications of the cluster.")] = False,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """Print what a set would create, change and delete. Exit code 1: with `--live`, it would change something."""
    manifest = read_set(file, namespace)
    known = dict[str, Manifest]()
    if live:
        client = connect(place.cluster)
        declared_in = metadata_of(manifest)["namespace"]
        # changes() recognises the set's own Applications by its uid
        uid = uid_of(one_set(client, declared_in, str(metadata_of(manifest).get("name"))) or {})
        manifest = {**manifest, "metadata": {**metadata_of(manifest), "uid": uid}}
        known = {
            str(at(application, "metadata", "name")): application
            for application in all_applications(client, declared_in)
        }
    application_set = parse_application_set(manifest)
    tree = open_path(repo).tree
    # every Git generator reads this folder, whatever repository it names
    expansion = expand(application_set, lambda git: tree)
    rows = list(preview_rows(expansion, changes(application_set, expansion, known)))
    show(rows, ("action", "name", "element", "path"), output, key="name")
    return Exit.DIFFERENT if live and any(row["action"] != "keep" for row in rows) else Exit.OK


@appset.command("list")
@command
def list_sets(
    place: ClusterTarget,
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
) -> Exit:
    """List ApplicationSets with their state. Exit code 1: one is not Ready."""
    rows = [row_of(manifest) for manifest in all_sets(connect(place.cluster), namespace)]
    columns = ("namespace", "name", "applications", "ready", "reason", "message")
    show(rows, columns, output, key=("namespace", "name"))
    return Exit.OK if all(row["ready"] == "True" for row in rows) else Exit.DIFFERENT


@appset.command()
@command
def approve(
    place: ClusterTarget,
    origin: RequestOrigin,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The ApplicationSet.")],
    namespace: Namespace = NAMESPACE,
) -> Exit:
    """Approve the deletions of Applications that wait, exactly these. Exit code 2: none wait."""
    client = connect(place.cluster)
    key = f"{namespace}/{name}"
    held = at(one_set(client, namespace, name), "status", "heldDeletions")
    requests = DeclarationRequests(DatabaseRecords(place.data), SystemClock())
    requests.approve_deletions(SetRequestWriter(client), key, held, User(user_name(origin.by, "--by")), origin.reason)
    say(f"ApplicationSet {key}: approved the deletion of {held['count']} Applications: {', '.join(held['names'])}")
    return Exit.OK


def read_set(file: str, namespace: str) -> Manifest:
    """Return the one ApplicationSet of a file, in a namespace where it names none."""
    try:
        documents = read_all(Path(file).read_bytes(), file)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", location=file) from error
    sets = [
        document
        for document in documents
        if isinstance(document, dict) and document.get("kind") == APPLICATION_SET.kind
    ]
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
        manifest: Manifest = client.get(_path(namespace, name))
    except Rejected as error:
        if error.code == 404:
            return None
        raise
    return manifest


@dataclass(frozen=True, slots=True)
class SetRequestWriter:
    """Writes requests into ApplicationSets."""

    client: Client

    def approve_deletions(self, key: str, id: str) -> None:
        """Annotate a set with the id of the deletions that are approved, and with nothing else."""
        namespace, _, name = key.partition("/")
        metadata = {"name": name, "namespace": namespace, "annotations": {APPROVE_DELETIONS: id}}
        body = {"apiVersion": API_VERSION, "kind": APPLICATION_SET.kind, "metadata": metadata}
        self.client.apply(_path(namespace, name), body, {"fieldManager": _APPROVE_MANAGER, "force": "true"})


def row_of(manifest: Manifest) -> Row:
    """Return the row of a set in a list."""
    status = manifest.get("status") or {}
    ready = find_condition(status, "Ready")
    return {
        "namespace": at(manifest, "metadata", "namespace"),
        "name": at(manifest, "metadata", "name"),
        "applications": at(status, "counts", "desired", default=0),
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "message": ready.get("message", ""),
    }


def preview_rows(expansion: Expansion, changes: Changes) -> Iterator[Row]:
    """Yield what happens to each Application: in the order of the elements, then what no element yields."""
    for name, application in expansion.applications.items():
        path = at(application.manifest, "spec", "source", "path", default=".")
        yield {"action": _action(name, changes), "name": name, "element": application.element, "path": path}
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
