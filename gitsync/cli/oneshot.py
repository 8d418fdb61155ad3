"""What the engine would do with one Application, worked out once by requests instead of watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitsync.cli.applications import one_application
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import Kubernetes
from gitsync.errors import ClusterUnavailable, GitsyncError
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import Plan
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.make import Seen, make_plan, uncertain
from gitsync.plan.mask import mask_change
from gitsync.ports import Resource
from gitsync.render.build import build
from gitsync.source.local import open_path
from gitsync.source.repositories import Repositories
from gitsync.source.rules import SAFE_SCHEMES, clean_path
from gitsync.sync.credentials import credentials_of
from gitsync.sync.observe import declare, observe


class Reading:
    """Live objects by one request each, for commands that look once."""

    def __init__(self, cluster: Kubernetes) -> None:
        self._cluster = cluster

    def follow(self, resources: Iterable[Resource], timeout: float) -> None:
        """Do nothing: every look is a request."""

    def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """Return the object as it is now."""
        return self._cluster.read(ObjectRef(resource.group, resource.kind, namespace, name), resource.version)

    def all(self, resource: Resource) -> tuple[Manifest, ...]:
        """Return nothing: a single look needs no list."""
        return ()

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return nothing: a single look does not follow owners."""
        return ()

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object alone."""
        return (manifest,)

    def saw(self, resource: Resource, manifest: Manifest) -> None:
        """Do nothing: there is no copy to keep."""


@dataclass(frozen=True, slots=True)
class Look:
    """An Application, what of it was compared, and the masked plan."""

    application: Application
    revision: str
    plan: Plan


def open_source(data: Path, *, allow_file_urls: bool) -> Repositories:
    """Return the mirrors in the data folder."""
    return Repositories(data / "mirrors", schemes=(*SAFE_SCHEMES, "file") if allow_file_urls else SAFE_SCHEMES)


def look(client: Client, source: Repositories, namespace: str, name: str, local: Path | None) -> Look:
    """
    Compare what Git, or a local folder, declares now with the cluster; nothing is written.

    Objects whose comparison only the API server can be sure of are asked by a dry run.
    """
    cluster = Kubernetes(client)
    manifest = one_application(client, namespace, name)
    app = parse_application(manifest)
    revision, manifests = _rendered(app, cluster, source, local)
    desired, _ = declare(app, manifests, cluster)
    inventory = Inventory.from_status(at(manifest, "status", "inventory", default=[]))
    seen = observe(desired, inventory, cluster, Reading(cluster))
    plan = make_plan(app, revision, desired, Seen(seen.live), inventory, seen.schema_of)
    answers = {ref: _dry_run(cluster, desired[ref]) for ref in uncertain(plan) if ref in seen.live}
    if answers:
        plan = make_plan(app, revision, desired, Seen(seen.live, answers), inventory, seen.schema_of)
    return Look(app, revision, replace(plan, changes=tuple(mask_change(change) for change in plan.changes)))


def _rendered(
    app: Application, cluster: Kubernetes, source: Repositories, local: Path | None
) -> tuple[str, Sequence[Manifest]]:
    if local is not None:
        place = open_path(str(local))
        return "", build(place.tree, place.path, renderer=app.source.renderer).manifests
    credentials = credentials_of(app, cluster, Reading(cluster))
    commit = source.resolve(app.source, credentials)
    snapshot = source.snapshot(app.source, credentials, commit)
    return commit, build(snapshot.tree, clean_path(app.source.path), renderer=app.source.renderer).manifests


def _dry_run(cluster: Kubernetes, desired: Manifest) -> Manifest | GitsyncError:
    try:
        return cluster.apply(desired, manager=FIELD_MANAGER, dry_run=True)
    except ClusterUnavailable:
        raise
    except GitsyncError as error:
        return error
