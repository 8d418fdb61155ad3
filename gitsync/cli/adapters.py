"""The edges as a command sees them that looks once: no watches, no processes, and the rights of who types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Rejected
from gitsync.objects.application import GitSource
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.objects.tree import Tree
from gitsync.ports import Credentials, Resource, Snapshot
from gitsync.render.build import Build, build
from gitsync.render.provenance.trace import FieldSelection, Traces, trace
from gitsync.render.yaml.ambiguous_bools import reject_ambiguous_bools
from gitsync.source.repositories import Repositories
from gitsync.workers import protocol


class DirectLiveCache:
    """Live objects by one request each."""

    def __init__(self, cluster: KubernetesCluster) -> None:
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

    def observe_write(self, resource: Resource, manifest: Manifest) -> None:
        """Do nothing: there is no copy to keep."""

    def observe_delete(self, resource: Resource, manifest: Manifest) -> None:
        """Do nothing: there is no copy to keep."""


class CallerCluster(KubernetesCluster):
    """A cluster in which dry runs go on under our own name where we may not take the Application's."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply as the port says."""
        try:
            return super().apply(manifest, manager=manager, force=force, dry_run=dry_run, user=user)
        except Rejected as error:
            if not (user and dry_run and error.code == 403 and "impersonate" in error.message):
                raise
        return super().apply(manifest, manager=manager, force=force, dry_run=dry_run)


class InProcessRenderer:
    """Render in this process, to exactly what the controller's own processes would send it."""

    def render(self, snapshot: Snapshot, path: str, renderer: str) -> Build:
        """Return the manifests and the files read."""
        made = build(snapshot.tree, path, renderer=renderer)
        reject_ambiguous_bools(made.manifests)
        return protocol.to_build(orjson.loads(protocol.frame(protocol.of_build(made))[protocol.LENGTH_BYTES :]))

    def trace(self, snapshot: Snapshot, path: str, renderer: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields."""
        return trace(build(snapshot.tree, path, renderer=renderer, provenance=True), wanted)


class FolderSource(Repositories):
    """A folder on disk in the place of every commit."""

    def __init__(self, mirrors: Path, tree: Tree) -> None:
        super().__init__(mirrors)
        self._tree = tree

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str) -> Snapshot:
        """Return the files of the folder."""
        return Snapshot(Commit(commit), self._tree, "")
