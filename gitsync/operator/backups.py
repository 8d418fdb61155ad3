"""Begin the backups of an Agent that are due, and say which ones a dangerous change waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gitsync.agents.backup import (
    SNAPSHOTS,
    BackupResult,
    KnownBackup,
    backup_objects,
    backup_status,
    claims_of,
    created_at,
    due,
    expired,
    guard_id,
    known_backups,
    seconds_until_next,
)
from gitsync.agents.keys import AGENT_LABEL, BACKUP, BACKUP_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.state import Track
from gitsync.objects.manifest import Manifest, at, labels_of, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import Cluster, LiveCache

Objects = dict[ObjectRef, Manifest]


@dataclass(frozen=True, slots=True)
class Backups:
    """
    The backups of an Agent in one pass.

    ``wanted`` are the objects to create now, ``kept`` those that live, ``expired`` those to delete;
    ``before`` are the objects of the backup that a dangerous change needs, empty where it needs none.
    """

    wanted: Objects = field(default_factory=dict)
    kept: frozenset[ObjectRef] = frozenset()
    expired: Objects = field(default_factory=dict)
    before: Objects = field(default_factory=dict)
    before_id: str = ""
    known: tuple[KnownBackup, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    requeue_after: float | None = None

    @property
    def guard(self) -> KnownBackup | None:
        """The backup before the change of this generation, None where it was not begun."""
        return next((known_backup for known_backup in self.known if known_backup.id == self.before_id), None)

    @property
    def failure(self) -> str:
        """Why that backup failed, empty where it did not."""
        guard = self.guard
        is_failed = guard is not None and guard.result is BackupResult.FAILED
        return f"backup {self.before_id} failed: {guard.message}" if guard is not None and is_failed else ""

    @property
    def may_change(self) -> bool:
        """Whether a dangerous change may run: it needs no backup, or its backup succeeded."""
        is_done = self.guard is not None and self.guard.result is BackupResult.SUCCEEDED
        return not self.before or is_done


class BackupKeeper:
    """Plan backups from the local copies; claims and snapshots are followed with the other children."""

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live

    def plan(self, agent: Agent, manifest: Manifest, template: Manifest, now: datetime) -> Backups:
        """Return the backups of an Agent."""
        backup = agent.spec.backup
        if backup is None:
            return Backups()
        known = known_backups([*self._labelled(agent, "VolumeSnapshot"), *self._labelled(agent, "Job")])
        claim_names = [ref_of(claim).name for claim in self._all(agent, "PersistentVolumeClaim")]
        claims = claims_of(agent, claim_names, _workload(agent))
        # Asked in each pass: the kind may be installed later.
        snapshots = self._cluster.resource(SNAPSHOTS, "v1", "VolumeSnapshot") is not None

        def objects(id: str) -> Objects:
            manifests = backup_objects(agent, id, claims, template, snapshots=snapshots) if id else []
            return {ref_of(manifest): manifest for manifest in manifests}

        created = created_at(manifest)
        requested = agent.annotations.get(BACKUP, "")
        # The annotation stays, while the copies go by retention: what was begun once is in the status.
        handled = at(manifest, "status", "backup", "request")
        is_begun = requested == handled or any(known_backup.id == requested for known_backup in known)
        # A set: the schedule and a request may name the same backup.
        ids = {due(backup, created, now, known), "" if is_begun else requested}
        guard = guard_id(agent.generation, agent.uid, created, known)
        outdated = [copy for known_backup in expired(backup, known, guard) for copy in known_backup.objects]
        return Backups(
            wanted={ref: copy for id in sorted(ids) for ref, copy in objects(id).items()},
            kept=frozenset(ref_of(copy) for known_backup in known for copy in known_backup.objects),
            expired={ref_of(copy): copy for copy in outdated},
            # Without the setting no backup is needed, and nothing waits.
            before=objects(guard) if backup.before_dangerous else {},
            before_id=guard,
            known=known,
            status=backup_status(known, backup, now) | ({"request": requested} if is_begun and requested else {}),
            requeue_after=seconds_until_next(backup, now),
        )

    def _labelled(self, agent: Agent, kind: str) -> list[Manifest]:
        return [
            manifest
            for manifest in self._all(agent, kind)
            if BACKUP_LABEL in labels_of(manifest) and labels_of(manifest).get(AGENT_LABEL) == agent.name
        ]

    def _all(self, agent: Agent, kind: str) -> list[Manifest]:
        group = {"VolumeSnapshot": SNAPSHOTS, "Job": "batch"}.get(kind, "")
        resource = self._cluster.resource(group, "v1", kind)
        everything = self._live.all(resource) if resource is not None else ()
        # The local copies have the objects of all namespaces.
        return [manifest for manifest in everything if metadata_of(manifest).get("namespace") == agent.namespace]


def _workload(agent: Agent) -> str:
    return Track.STABLE.workload(agent.name)
