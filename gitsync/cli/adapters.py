"""Ports for commands that run once: direct requests, no watches, no processes, the caller's own permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.edit.adopt import Adoption, ClusterValue
from gitsync.errors import GroupUnavailable, Rejected
from gitsync.objects.application import Application, GitSource
from gitsync.objects.charts import ChartOptions, Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.objects.tree import Tree
from gitsync.ports import ApiResource, Credentials, Scope, Snapshot
from gitsync.render.build import Build, build
from gitsync.render.provenance.trace import FieldSelection, Traces, trace
from gitsync.render.yaml.yaml11 import reject_ambiguous_bools
from gitsync.source.repositories import Repositories
from gitsync.workers import protocol
from gitsync.workers.edits import adopted, of_edit, to_adoption
from gitsync.workers.helm import HelmProgram


class DirectLiveCache:
    """Live objects, read by one request each."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self._cluster = cluster

    def follow(self, scopes: Iterable[Scope], timeout: float, *, only: bool = False) -> None:
        """Do nothing: every read is a request."""

    def follow_available(
        self, scopes: Iterable[Scope], timeout: float, *, only: bool = False
    ) -> Mapping[ApiResource, GroupUnavailable]:
        """Return nothing: the read of an object of a group that is unavailable raises the error."""
        return {}

    def relist(self, of: GroupKind, delay: float) -> None:
        """Do nothing: each read is a request."""

    def forget(self, of: GroupKind) -> None:
        """Do nothing: nothing is cached."""

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        """Return the live object, read by a request."""
        return self._cluster.read(ObjectRef(resource.group, resource.kind, namespace, name), resource.version)

    def find(self, resource: ApiResource, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Manifest]:
        """Return the live objects, each read by a request."""
        live = {ref: self.get(resource, ref.namespace, ref.name) for ref in refs}
        return {ref: manifest for ref, manifest in live.items() if manifest is not None}

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        """Return nothing: a comparison needs no list."""
        return ()

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return nothing: a comparison does not read dependents."""
        return ()

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object alone."""
        return (manifest,)

    def last_finished(self, ref: ObjectRef) -> Manifest | None:
        """Return nothing: nothing is cached, and the inventory has what the controller saw."""
        return None

    def observe_write(self, resource: ApiResource, manifest: Manifest) -> None:
        """Do nothing: nothing is cached."""

    def observe_delete(self, resource: ApiResource, manifest: Manifest) -> None:
        """Do nothing: nothing is cached."""


class CallerCluster(KubernetesCluster):
    """A cluster in which a dry run that may not impersonate the Application's ServiceAccount runs as the caller."""

    def read(self, ref: ObjectRef, version: str, *, user: str = "") -> Manifest | None:
        """Return the object as it is now, with the rights of the caller, who sees what a command prints."""
        return super().read(ref, version)

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply an object; see the port."""
        try:
            return super().apply(manifest, manager=manager, force=force, dry_run=dry_run, user=user)
        except Rejected as error:
            # only the impersonation was refused: a write, or what the account itself may not do, is an error
            if not (user and dry_run and error.code == 403 and "impersonate" in error.message):
                raise
        return super().apply(manifest, manager=manager, force=force, dry_run=dry_run)


class InProcessRenderer:
    """Render in this process, to exactly what the controller's render processes return."""

    def __init__(self, helm: Helm | None = None) -> None:
        self._helm = helm or HelmProgram()

    def render(self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions) -> Build:
        """Return the manifests and the files read."""
        rendered = build(snapshot.tree, path, renderer=renderer, chart=chart, helm=self._helm)
        reject_ambiguous_bools(rendered.manifests)
        # through the messages of the render processes: JSON turns some keys and numbers into others
        return protocol.to_build(protocol.as_received(protocol.of_build(rendered)))

    def adopt(self, snapshot: Snapshot, app: Application, values: Sequence[ClusterValue]) -> Adoption:
        """Return the edits of the files of an Application that give fields these values."""
        request = of_edit(app, snapshot, values)
        found = adopted(snapshot.tree, protocol.as_received(request), self._helm)
        return to_adoption(protocol.as_received(found), values)

    def trace(
        self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions, wanted: FieldSelection
    ) -> Traces:
        """Return the steps that set these fields."""
        made = build(snapshot.tree, path, renderer=renderer, provenance=True, chart=chart, helm=self._helm)
        return trace(made, wanted)


class FolderSource(Repositories):
    """A source whose commits all have the files of one folder on disk."""

    def __init__(self, mirrors: Path, tree: Tree) -> None:
        super().__init__(mirrors)
        self._tree = tree

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> Snapshot:
        """Return the files of the folder."""
        return Snapshot(Commit(commit), self._tree, "")
