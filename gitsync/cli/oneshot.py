"""What the engine would do with one Application, worked out once by requests instead of watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gitsync.cli.applications import connect, one_application
from gitsync.cli.options import Site
from gitsync.cluster.kubernetes import Kubernetes
from gitsync.errors import ClusterUnavailable, GitsyncError
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import Plan
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.make import Seen, make_plan, uncertain
from gitsync.plan.mask import mask_change
from gitsync.ports import Credentials, Resource
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

    def forget(self, of: GroupKind) -> None:
        """Do nothing: nothing is kept."""

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
    """An Application, its manifest as it was read, what of it was compared, and the masked plan."""

    application: Application
    manifest: Manifest
    revision: str
    plan: Plan


class Desk:
    """What commands work with: a client of the cluster, and the mirrors in the data folder."""

    def __init__(self, site: Site) -> None:
        self.client = connect(site.kubeconfig)
        self.cluster = Kubernetes(self.client)
        self.live = Reading(self.cluster)
        schemes = (*SAFE_SCHEMES, "file") if site.file_urls else SAFE_SCHEMES
        self.source = Repositories(site.data / "mirrors", schemes=schemes)

    def look(self, namespace: str, name: str, local: Path | None = None) -> Look:
        """
        Compare what Git, or a local folder, declares now with the cluster; nothing is written.

        Objects whose comparison only the API server can be sure of are asked by a dry run.
        """
        manifest = one_application(self.client, namespace, name)
        app = parse_application(manifest)
        if local is not None:
            place = open_path(str(local))
            made = build(place.tree, place.path, renderer=app.source.renderer)
            return self._compare(app, manifest, "", made.manifests)
        commit = self.source.resolve(app.source, self.credentials(app))
        return self.look_at(app, manifest, commit)

    def look_at(self, app: Application, manifest: Manifest, commit: str) -> Look:
        """Compare what a commit declares with the cluster."""
        snapshot = self.source.snapshot(app.source, self.credentials(app), commit)
        made = build(snapshot.tree, clean_path(app.source.path), renderer=app.source.renderer)
        return self._compare(app, manifest, commit, made.manifests)

    def credentials(self, app: Application) -> Credentials:
        """Return how to sign in at the Git server of an Application."""
        return credentials_of(app, self.cluster, self.live)

    def _compare(self, app: Application, manifest: Manifest, revision: str, manifests: Sequence[Manifest]) -> Look:
        desired, _ = declare(app, manifests, self.cluster)
        inventory = Inventory.from_status(at(manifest, "status", default={}))
        seen = observe(desired, inventory, self.cluster, self.live)
        plan = make_plan(app, revision, desired, Seen(seen.live), inventory, seen.schema_of)
        answers = {ref: _dry_run(self.cluster, desired[ref]) for ref in uncertain(plan) if ref in seen.live}
        if answers:
            plan = make_plan(app, revision, desired, Seen(seen.live, answers), inventory, seen.schema_of)
        masked = replace(plan, changes=tuple(mask_change(change) for change in plan.changes))
        return Look(app, manifest, revision, masked)


def _dry_run(cluster: Kubernetes, desired: Manifest) -> Manifest | GitsyncError:
    try:
        return cluster.apply(desired, manager=FIELD_MANAGER, dry_run=True)
    except ClusterUnavailable:
        raise
    except GitsyncError as error:
        return error
