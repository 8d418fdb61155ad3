"""The objects of one backup: a VolumeSnapshot for each claim, or a Job with the command of the spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitsync.agents.expansion.containers import security
from gitsync.agents.expansion.metadata import child, compact, labels_for
from gitsync.agents.expansion.volumes import volumes_of
from gitsync.agents.keys import BACKUP_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.backup import Backup
from gitsync.objects.manifest import Manifest

SNAPSHOTS = "snapshot.storage.k8s.io"
_FOLDER = "/backup"


def claims_of(agent: Agent, names: Sequence[str], workload: str) -> list[str]:
    """Return which of these claims hold the volumes of an Agent: shared ones, and those of each replica."""
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
    if snapshots and claims:
        return [_snapshot(agent, backup, id, claim) for claim in claims]
    return [_job(agent, backup, id, claims, template)] if backup.command else []


def _is_of_replica(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefix) and name.removeprefix(prefix).isdigit() for prefix in prefixes)


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
            "volumeMounts": [{"name": claim, "mountPath": f"{_FOLDER}/{claim}", "readOnly": True} for claim in claims],
        }
    )
    pod: dict[str, Any] = {
        **compact({name: template["spec"].get(name) for name in ("imagePullSecrets", "securityContext")}),
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    if claims:
        pod["volumes"] = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}} for claim in claims
        ]
    spec = {
        "backoffLimit": 1,
        "activeDeadlineSeconds": backup.timeout_seconds,
        "template": {"metadata": {"labels": {BACKUP_LABEL: id}}, "spec": pod},
    }
    job = child(agent, "batch/v1", "Job", f"{agent.name}-backup-{id}", spec=spec)
    job["metadata"]["labels"][BACKUP_LABEL] = id
    return job
