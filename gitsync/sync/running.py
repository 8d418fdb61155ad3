"""What the Pods of an Application run otherwise than it declares, found among the watched objects, and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

from gitsync.errors import GitsyncError, one_line
from gitsync.kube.parts import WORKLOADS
from gitsync.objects.application import Application
from gitsync.objects.conditions import Condition
from gitsync.objects.manifest import Manifest, at, resource_version_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.generated import is_configuration, read_by
from gitsync.plan.running import (
    POD,
    RESTARTABLE,
    ContentVersion,
    ExecutionsOf,
    FindingKey,
    RunningFinding,
    changed_at,
    content_digest,
    is_current,
    is_rolled_out,
    newest_digests,
    references_of,
    running_findings,
)
from gitsync.plan.tracking import owner_of
from gitsync.ports import Cluster, LiveCache

RUNNING: Final = "PodsDiffer"
"""The type of the condition; an Application has it while there is something to report."""
_REPLACED_IN_PLACE: Final = frozenset({GroupKind("apps", "DaemonSet"), GroupKind("apps", "StatefulSet")})
"""Workloads without an object for each revision of their Pods, as a Deployment has ReplicaSets."""
_NAMED = 3
"""Pods that the condition names; the others are counted."""
_LISTED = 50
"""Findings in the status, which is stored in etcd and read by each watch."""
_VERSIONS = 8
"""Contents that are remembered of one object: more than change while the Pods of a workload are replaced."""

Running = Mapping[ObjectRef, tuple[RunningFinding, ...]]
"""The findings by workload."""


class RunningState:
    """
    The content of the Secrets and ConfigMaps that the workloads of one Application read, and since when they have it.

    A status keeps since when, with the resourceVersion: after a restart, a write that left the content as it was must
    not look like another content.
    """

    def __init__(self) -> None:
        self._objects: dict[ObjectRef, Manifest] = {}
        self._versions: dict[ObjectRef, tuple[ContentVersion, ...]] = {}
        self._reported: frozenset[tuple[ObjectRef, RunningFinding]] = frozenset()
        self._restored: Mapping[ObjectRef, tuple[str, datetime]] | None = None
        self.executions_of: ExecutionsOf = lambda pod: ()
        """What users ran in Pods, where an audit sink receives that."""

    def restore(self, status: Mapping[str, Any]) -> None:
        """Read what the status kept, once."""
        if self._restored is None:
            self._restored = {
                ObjectRef.from_path(str(item["object"])): (str(item["version"]), datetime.fromisoformat(item["since"]))
                for item in status.get("contents") or ()
            }

    def to_status(self) -> list[dict[str, str]]:
        """Return since when each object has its content, as the status keeps it."""
        return [
            {
                "object": ref.path,
                "version": resource_version_of(self._objects[ref]),
                "since": versions[-1].since.isoformat(),
            }
            for ref, versions in sorted(self._versions.items())
        ]

    def find(
        self, app: Application, live: Mapping[ObjectRef, Manifest], cluster: Cluster, cache: LiveCache
    ) -> tuple[Running, frozenset[ObjectRef]]:
        """
        Return what the Pods of the live workloads run otherwise than declared, and the objects that they read.

        Nothing is requested: Pods are those that are watched already. A Secret or ConfigMap counts where its kind is
        watched, which ``sync.restartOn`` ensures.
        """
        pods = {ref: _pods(manifest, cache) for ref, manifest in live.items() if ref.of in WORKLOADS or ref.of == POD}
        names = {ref: _references(ref, live[ref]) for ref in pods if ref.of in RESTARTABLE}
        # without Pods nothing has read them: a command that compares once has none, and requests nothing
        self._read(app, frozenset().union(*(names[ref] for ref in names if pods[ref])), cluster, cache)
        findings = {ref: self._findings(app, live[ref], parts) for ref, parts in pods.items()}
        return {ref: items for ref, items in findings.items() if items}, frozenset().union(*names.values())

    def find_in(self, app: Application, ref: ObjectRef, live: Manifest, cache: LiveCache) -> tuple[RunningFinding, ...]:
        """Return what the Pods of one object run otherwise than declared, nothing for what is not a workload."""
        is_workload = ref.of in WORKLOADS or ref.of == POD
        return self._findings(app, live, _pods(live, cache)) if is_workload else ()

    def _findings(self, app: Application, live: Manifest, pods: Sequence[Manifest]) -> tuple[RunningFinding, ...]:
        contents_of = partial(self._contents_of, app)
        return running_findings(live, pods, contents_of, app.sync.ignore, self.executions_of)

    def _contents_of(self, app: Application, source: ObjectRef, is_mounted: bool) -> Sequence[ContentVersion]:
        held = self._objects.get(source)
        # cert-manager, External Secrets and Kubernetes (kube-root-ca.crt) rotate what they keep, in each mount too
        is_rotated = held is not None and not owner_of(held) and source.kind not in app.sync.restart_on
        return () if is_mounted and is_rotated else self._versions.get(source, ())

    def news(self, running: Running) -> tuple[tuple[ObjectRef, str], ...]:
        """Return the findings that were not among those of the last call: each is an event once."""
        findings = frozenset((ref, item) for ref, items in running.items() for item in items)
        new = findings - self._reported
        self._reported = findings
        return tuple(sorted((ref, f"{item.pod} {item.message}") for ref, item in new))

    def _read(self, app: Application, names: frozenset[ObjectRef], cluster: Cluster, cache: LiveCache) -> None:
        """Note the content that objects have now; one that is not watched or does not exist is unknown."""
        for kind in ("ConfigMap", "Secret"):
            refs = [ref for ref in names if ref.kind == kind]
            resource = cluster.resource("", "v1", kind) if refs else None
            if resource is None:
                continue
            with suppress(GitsyncError):  # what may not be read, or not now, is not reported
                if kind in app.sync.restart_on:
                    # 0: a reconcile must not wait for it; the first list enqueues the Application
                    cache.follow([(resource, space) for space in {ref.namespace for ref in refs}], 0, only=True)
                for ref, manifest in cache.find(resource, refs).items():
                    self._note(ref, manifest)
        self._versions = {ref: versions for ref, versions in self._versions.items() if ref in names}
        self._objects = {ref: manifest for ref, manifest in self._objects.items() if ref in names}

    def _note(self, ref: ObjectRef, manifest: Manifest) -> None:
        # by identity: a digest is computed once for each version of an object
        if self._objects.get(ref) is manifest:
            return
        self._objects[ref] = manifest
        versions = self._versions.get(ref, ())
        digest = content_digest(manifest)
        if versions and versions[-1].digest == digest:
            return
        since = changed_at(manifest)
        version, known_since = (self._restored or {}).get(ref, ("", None))
        if not versions and version == resource_version_of(manifest):
            since = known_since
        if since is not None:
            self._versions[ref] = (*versions, ContentVersion(digest, since))[-_VERSIONS:]


def running_digests(workload: Manifest | None, cache: LiveCache) -> dict[str, str]:
    """Return the digest that each image has in the newest of the watched Pods of a workload; nothing is requested."""
    pods = _pods(workload, cache) if workload is not None else ()
    return newest_digests([pod for pod in pods if is_current(pod)])


def running_condition(running: Running) -> Condition | None:
    """Return the condition that names the Pods, and what they run; None where all run what is declared."""
    lines = list(_lines(running))
    if not lines:
        return None
    kinds = sorted({finding.kind.name.capitalize() for findings in running.values() for finding in findings})
    more = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return Condition(RUNNING, "True", "And".join(kinds), "; ".join(lines[:_NAMED]) + more)


def running_status(running: Running, detected: Mapping[FindingKey, datetime]) -> list[dict[str, str]]:
    """Return the findings as the status lists them, with when each was detected."""
    rows = [
        {
            "object": str(ref),
            "pod": finding.pod.name,
            "kind": finding.kind.value,
            "message": one_line(finding.message, 300),
            "since": finding.since,
            # for the history of drift, which continues after a restart
            **({"detected": f"{detected[finding.key]:%Y-%m-%dT%H:%M:%SZ}"} if finding.key in detected else {}),
        }
        for ref, findings in sorted(running.items())
        for finding in findings
    ]
    return rows[:_LISTED]


def readers_of(
    replaced: Iterable[ObjectRef],
    live: Mapping[ObjectRef, Manifest],
    dependents: Callable[[str], Iterable[Manifest]],
) -> dict[ObjectRef, str]:
    """
    Return what still reads ConfigMaps and Secrets that Git no longer declares, of all that came from ``live``.

    Agents have Deployments, these have ReplicaSets: a part at any depth may be of the former revision. ``dependents``
    returns the parts of the object with a uid.
    """
    refs = {ref for ref in replaced if is_configuration(ref)}
    if not refs:
        return {}
    readers: dict[ObjectRef, str] = {}
    # the Pods of these kinds are the only trace of the former revision, and one may be absent for a moment
    for ref, workload in live.items():
        if ref.of in _REPLACED_IN_PLACE and not is_rolled_out(workload):
            readers |= {
                it: f"{ref.kind} {ref.name} is being rolled out" for it in refs if it.namespace == ref.namespace
            }
    parts = [part for manifest in live.values() for part in dependents(uid_of(manifest))]
    while parts:
        part = parts.pop()
        readers |= {ref: reader for ref, reader in read_by(part) if ref in refs}
        parts += dependents(uid_of(part))
    return readers


def _lines(running: Running) -> Iterator[str]:
    for _, findings in sorted(running.items()):
        for finding in findings:
            yield one_line(f"{finding.pod}: {finding.message}", 300)


def _references(ref: ObjectRef, workload: Manifest) -> frozenset[ObjectRef]:
    """Return the Secrets and ConfigMaps that the Pods of a workload read."""
    spec = at(workload, "spec", "template", "spec", default={})
    return frozenset(reference._replace(namespace=ref.namespace) for reference in references_of(spec))


def _pods(workload: Manifest, cache: LiveCache) -> Sequence[Manifest]:
    """Return the Pods of a workload; a Pod that Git declares is its own."""
    if workload.get("kind") == POD.kind:
        return (workload,)
    children = cache.dependents(uid_of(workload))
    # two levels: a Deployment owns ReplicaSets, and these own the Pods
    grandchildren = [part for child in children for part in cache.dependents(uid_of(child))]
    return [part for part in (*children, *grandchildren) if part.get("kind") == POD.kind]
