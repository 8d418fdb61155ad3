"""Deployments and StatefulSets of an Agent."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.election import without_election
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.expansion.volumes import claim_templates, is_stateful, volumes_of, without_claims
from gitsync.agents.keys import AGENT_LABEL, REVISION_LABEL, SERVING_LABEL, TRACK_LABEL, child, compact
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.state import Placement, Track
from gitsync.merge.fieldset import Node
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of

_REPLICAS = ("f:spec", "f:replicas")


def workload(agent: Agent, placement: Placement, revision: Revision) -> Manifest:
    """Return the workload of a placement."""
    if is_stateful(agent) and placement.track is Track.STABLE:
        return _stateful_set(agent, placement, revision)
    return _deployment(agent, placement, revision)


def live_placement(live: Manifest, agent: str) -> Placement:
    """Return the placement that a live workload is of."""
    selector = at(live, "spec", "selector", "matchLabels", default={})
    labels = at(live, "spec", "template", "metadata", "labels", default={})
    track = Track(selector.get(TRACK_LABEL, Track.STABLE.value))
    # A Deployment has no partition, and one without means all Pods.
    partition = at(live, "spec", "updateStrategy", "rollingUpdate", "partition", default=0)
    return Placement(track, f"{agent}-{labels.get(REVISION_LABEL, '')}", partition=int(partition or 0))


def track_selector(agent: Agent, track: Track) -> dict[str, str]:
    """Return the labels that select the Pods of a track, and no others."""
    return {AGENT_LABEL: agent.name, TRACK_LABEL: track.value}


def workload_kind(agent: Agent) -> str:
    """Return the kind of the workload that serves."""
    return "StatefulSet" if is_stateful(agent) else "Deployment"


def _deployment(agent: Agent, placement: Placement, revision: Revision) -> Manifest:
    spec = compact(
        {
            # ReplicaSets of older revisions are of no use: a rollback applies a kept ControllerRevision.
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": agent.spec.update.progress_deadline_seconds,
            "selector": {"matchLabels": track_selector(agent, placement.track)},
            "strategy": _strategy(agent, placement.track),
            "template": _template(agent, placement, revision),
        }
    )
    return child(agent, "apps/v1", "Deployment", placement.track.workload(agent.name), spec=_sized(spec, placement))


def _stateful_set(agent: Agent, placement: Placement, revision: Revision) -> Manifest:
    keeps = all(volume.on_delete == "Retain" for volume in volumes_of(agent) if volume.scope == "PerReplica")
    spec = {
        "serviceName": f"{agent.name}-peers",
        # Replicas of an agent do not depend on each other, and one broken Pod must not stop the others.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": track_selector(agent, placement.track)},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": placement.partition}},
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Retain" if keeps else "Delete",
            # A scale down does not decide on data: the same replica gets its volume again.
            "whenScaled": "Retain",
        },
        "template": _template(agent, placement, revision),
        "volumeClaimTemplates": claim_templates(agent),
    }
    return child(agent, "apps/v1", "StatefulSet", agent.name, spec=_sized(spec, placement))


def _sized(spec: dict[str, Any], placement: Placement) -> dict[str, Any]:
    """Return the spec with a number of replicas, unless an autoscaler decides on it."""
    # With the number left out, server-side apply leaves the field to the autoscaler.
    return spec if placement.replicas is None else {"replicas": placement.replicas, **spec}


def _template(agent: Agent, placement: Placement, revision: Revision) -> Manifest:
    template = revision.template
    if placement.track is Track.PREVIEW:
        template = without_claims(template)
        template = without_election(template) if agent.spec.leader_election else template
    metadata = template["metadata"]
    labels = {
        **metadata["labels"],
        TRACK_LABEL: placement.track.value,
        REVISION_LABEL: revision.hash,
        # A preview gets no requests of users: the Service selects by this label.
        **({} if placement.track is Track.PREVIEW else {SERVING_LABEL: "true"}),
    }
    return {**template, "metadata": {**metadata, "labels": labels}}


def _strategy(agent: Agent, track: Track) -> dict[str, Any]:
    update = agent.spec.update
    # Previews and sides have no volume in common with it, so they may roll.
    if update.type == "Recreate" and track is Track.STABLE:
        return {"type": "Recreate"}
    # One more Pod at a time and none less: a rollout never reduces what serves.
    limits = update.rolling_update
    surge, unavailable = (limits.max_surge, limits.max_unavailable) if limits else (1, 0)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def without_reset(desired: Manifest, live: Manifest | None, least: int = 0) -> Manifest:
    """
    Return a workload without ``replicas`` with the live number, else ``least``, while only we own that field.

    A field that its last owner stops applying is removed, and the API server then defaults it to 1. The autoscaler
    becomes its owner with its first decision (Kubernetes documentation, "Migrating ... to horizontal autoscaling"). A
    HorizontalPodAutoscaler decides nothing while there are none, as after a suspension.
    """
    spec = desired.get("spec")
    # Only workloads without a number of replicas: an autoscaler decides on these.
    if live is None or not isinstance(spec, dict) or "template" not in spec or "replicas" in spec:
        return desired
    owners = {
        str(entry.get("manager"))
        for entry in metadata_of(live).get("managedFields") or ()
        if _has_replicas(entry.get("fieldsV1") or {})
    }
    # Once another manager owns the field too, leaving it out keeps its value.
    if owners != {AGENTS_MANAGER}:
        return desired
    return {**desired, "spec": {"replicas": at(live, "spec", "replicas", default=1) or least, **spec}}


def _has_replicas(fields: Node) -> bool:
    return at(fields, *_REPLICAS) is not None
