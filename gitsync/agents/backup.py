"""Backups of an Agent's volumes: their objects, how far they are, and which are due and kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from croniter import croniter

from gitsync.agents.expansion.pods import security
from gitsync.agents.expansion.volumes import volumes_of
from gitsync.agents.keys import BACKUP_LABEL, child, compact, labels_for
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.state import Backup
from gitsync.objects.manifest import Manifest, at, labels_of, metadata_of, resource_version_of
from gitsync.objects.ref import ref_of

_STAMP = "%Y%m%d%H%M%S"


class BackupResult(Enum):
    """How a backup ended; the value is what the status says."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class KnownBackup:
    """A backup that was begun: its id, its live objects, and how it ended."""

    id: str
    objects: tuple[Manifest, ...]
    result: BackupResult
    message: str = ""

    @property
    def began(self) -> str:
        """When its first object was created."""
        return min(str(metadata_of(manifest).get("creationTimestamp", "")) for manifest in self.objects)


def known_backups(manifests: Iterable[Manifest]) -> tuple[KnownBackup, ...]:
    """Return the backups that objects with the label belong to, newest first."""
    groups: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        groups.setdefault(labels_of(manifest)[BACKUP_LABEL], []).append(manifest)
    backups = [_known(id, tuple(objects)) for id, objects in groups.items()]
    return tuple(sorted(backups, key=_age, reverse=True))


def due(backup: Backup, since: datetime, now: datetime, known: Sequence[KnownBackup]) -> str:
    """
    Return the id of the backup that the schedule asks for now, empty where none is due.

    The id is the time of the schedule, so that two operators ask for the same. Times that passed while no operator ran
    are made up for by one backup; those before ``since``, when the Agent was created, are not.
    """
    if backup.schedule is None:
        return ""
    last = croniter(backup.schedule, now).get_prev(datetime)
    id = last.strftime(_STAMP)
    # Every earlier id is compared: the newest backup may be one that a user requested.
    return id if last >= since and all(known_backup.id != id for known_backup in known) else ""


def seconds_until_next(backup: Backup, now: datetime) -> float | None:
    """Return the seconds until the schedule asks for the next backup."""
    if backup.schedule is None:
        return None
    following: datetime = croniter(backup.schedule, now).get_next(datetime)
    # At least a second: a reconcile at the very time of the schedule would be repeated at once.
    return max((following - now).total_seconds(), 1.0)


def _age(backup: KnownBackup) -> tuple[str, int, tuple[str | int, ...]]:
    """
    Return a key that sorts backups by when they began.

    Times of creation have whole seconds. Of two in one second the later one was written last: the earlier one has
    ended by then. Ids break the tie of what has no version.
    """
    # a deletion is a write too, and what is deleted must not make the one that replaces it the older one
    kept = (manifest for manifest in backup.objects if "deletionTimestamp" not in metadata_of(manifest))
    versions = (resource_version_of(manifest) for manifest in kept)
    written = max((int(version) for version in versions if version.isdecimal()), default=0)
    return backup.began, written, _natural(backup.id)


def _natural(id: str) -> tuple[str | int, ...]:
    """Return a key that sorts the numbers in ids as numbers: of one second, the backup of generation 10 is after 9."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", id))


def expired(backup: Backup, known: Sequence[KnownBackup], guard: str) -> tuple[KnownBackup, ...]:
    """
    Return the backups that are not kept: succeeded ones beyond ``keep``, and failed ones older than the newest.

    The one with the id ``guard`` is kept, since a change waits for it: it would be deleted and requested in a loop.
    """
    good = [known_backup for known_backup in known if known_backup.result is BackupResult.SUCCEEDED]
    # The newest one stays as long as it has failed: its message is what a user has to see.
    old = [known_backup for known_backup in known[1:] if known_backup.result is BackupResult.FAILED]
    return tuple(known_backup for known_backup in (*good[backup.keep :], *old) if known_backup.id != guard)


def guard_id(generation: int, uid: str, created: datetime, known: Sequence[KnownBackup]) -> str:
    """Return the id of the backup before a change; one that an earlier Agent of the name left does not count."""
    id = f"generation-{generation}"
    # Generations start at 1 again for a recreated Agent of the same name.
    is_of_another = any(
        known_backup.id == id and datetime.fromisoformat(known_backup.began) < created for known_backup in known
    )
    return f"{id}-{uid[:8]}" if is_of_another else id


def backup_status(known: Sequence[KnownBackup], backup: Backup, now: datetime) -> dict[str, Any]:
    """Return what the status says of backups."""
    status: dict[str, Any] = {}
    if known:
        status = {"last": known[0].id, "result": known[0].result.value, "message": known[0].message}
        good = next((known_backup for known_backup in known if known_backup.result is BackupResult.SUCCEEDED), None)
        status["lastGood"] = good.id if good else ""
        status["objects"] = sorted(ref_of(known_backup).name for known_backup in good.objects) if good else []
    return {name: value for name, value in status.items() if value}


def _known(id: str, objects: tuple[Manifest, ...]) -> KnownBackup:
    results = [_result(manifest) for manifest in objects]
    # One failed copy makes the whole backup useless; one that runs makes it incomplete.
    for result in (BackupResult.FAILED, BackupResult.RUNNING):
        for manifest, (how, why) in zip(objects, results, strict=True):
            if how is result:
                return KnownBackup(id, objects, how, f"{ref_of(manifest).name}: {why}" if why else "")
    return KnownBackup(id, objects, BackupResult.SUCCEEDED)


def _result(manifest: Manifest) -> tuple[BackupResult, str]:
    """Return how one object of a backup ended, and why."""
    status: Mapping[str, Any] = manifest.get("status") or {}
    if manifest.get("kind") == "VolumeSnapshot":
        # readyToUse may become True after an error: the snapshot controller retries.
        if status.get("readyToUse") is True:
            return BackupResult.SUCCEEDED, ""
        problem = at(status, "error", "message")
        return (BackupResult.FAILED, str(problem)) if problem else (BackupResult.RUNNING, "")
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            is_done = condition["type"] == "Complete"
            result = BackupResult.SUCCEEDED if is_done else BackupResult.FAILED
            return result, "" if is_done else str(condition.get("message", ""))
    return BackupResult.RUNNING, ""


def created_at(manifest: Manifest) -> datetime:
    """Return when an object was created."""
    return datetime.fromisoformat(str(metadata_of(manifest)["creationTimestamp"])).astimezone(UTC)


SNAPSHOTS = "snapshot.storage.k8s.io"
_FOLDER = "/backup"


def claims_of(agent: Agent, names: Sequence[str], workload: str) -> list[str]:
    """Return which of these claims hold the volumes of an Agent: shared ones, and those of each replica."""
    # By exact name or by the pattern of a StatefulSet: claims of other workloads begin with the same texts.
    shared = {f"{agent.name}-{volume.name}" for volume in volumes_of(agent) if volume.scope == "Shared"}
    prefixes = tuple(f"{volume.name}-{workload}-" for volume in volumes_of(agent) if volume.scope == "PerReplica")
    return sorted(name for name in names if name in shared or _is_of_replica(name, prefixes))


def backup_objects(
    agent: Agent, id: str, claims: Sequence[str], template: Manifest, *, snapshots: bool
) -> list[Manifest]:
    """Return the objects of a backup; none where there is nothing to copy, or no way to copy it."""
    backup = agent.spec.backup
    if backup is None:
        return []
    # Snapshots are consistent and need no Pod; the command is for clusters without them.
    if snapshots and claims:
        return [_snapshot(agent, backup, id, claim) for claim in claims]
    return [_job(agent, backup, id, claims, template)] if backup.command else []


def _is_of_replica(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefix) and name.removeprefix(prefix).isdecimal() for prefix in prefixes)


def _snapshot(agent: Agent, backup: Backup, id: str, claim: str) -> Manifest:
    """Return a snapshot, without owner reference: it outlives the Agent."""
    spec = {"source": {"persistentVolumeClaimName": claim}}
    return {
        "apiVersion": f"{SNAPSHOTS}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {
            "name": f"{claim}-{id}",
            "namespace": agent.namespace,
            "labels": {**labels_for(agent), BACKUP_LABEL: id},
        },
        "spec": spec | compact({"volumeSnapshotClassName": backup.volume_snapshot_class_name}),
    }


def _job(agent: Agent, backup: Backup, id: str, claims: Sequence[str], template: Manifest) -> Manifest:
    own = template["spec"]["containers"][0]
    container = compact(
        {
            "name": "backup",
            "image": backup.image or own["image"],
            "command": list(backup.command),
            "env": [*own.get("env", []), {"name": "BACKUP_ID", "value": id}],
            "securityContext": security(agent),
            # A backup must not change what it copies.
            "volumeMounts": [{"name": claim, "mountPath": f"{_FOLDER}/{claim}", "readOnly": True} for claim in claims],
        }
    )
    pod: dict[str, Any] = {
        **compact({name: template["spec"].get(name) for name in ("imagePullSecrets", "securityContext")}),
        "restartPolicy": "Never",
        # A copy needs no rights in the cluster.
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    if claims:
        pod["volumes"] = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}} for claim in claims
        ]
    spec = {
        # One retry: a Pod may be evicted by no fault of the command.
        "backoffLimit": 1,
        "activeDeadlineSeconds": backup.timeout_seconds,
        "template": {"metadata": {"labels": {BACKUP_LABEL: id}}, "spec": pod},
    }
    job = child(agent, "batch/v1", "Job", f"{agent.name}-backup-{id}", spec=spec)
    job["metadata"]["labels"][BACKUP_LABEL] = id
    return job
