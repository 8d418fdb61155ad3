"""Volumes of an Agent: claims, mounts, and configuration as files."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.expansion.variables import databases
from gitsync.agents.keys import CARD_PATH, CONFIG_PATH, CONFIG_VOLUME, DATABASES_PATH, TOPOLOGY_PATH, child, compact
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.state import Volume
from gitsync.objects.manifest import Manifest, at

Parts = list[dict[str, Any]]


def volumes_of(agent: Agent) -> tuple[Volume, ...]:
    """Return the volumes of an Agent."""
    return agent.spec.state.volumes if agent.spec.state else ()


def is_stateful(agent: Agent) -> bool:
    """Whether replicas have volumes of their own, and so are those of a StatefulSet."""
    return any(volume.scope == "PerReplica" for volume in volumes_of(agent))


def claims(sharing: Sharing) -> list[Manifest]:
    """Return the claims that replicas share, as the newest spec that has the volume wants it."""
    # The newest spec first: a volume only grows, so its claim serves the older revisions too.
    agents = [sharing.target] if sharing.target in sharing.others.values() else []
    newest: dict[str, Manifest] = {}
    for agent in (*agents, *sharing.all):
        for claim in _shared_claims(agent):
            newest.setdefault(claim["metadata"]["name"], claim)
    return list(newest.values())


def _shared_claims(agent: Agent) -> list[Manifest]:
    """Return the claims of one spec; one that outlives the Agent has no owner reference."""
    manifests = []
    for volume in volumes_of(agent):
        if volume.scope == "Shared":
            name = claim_name(agent, volume)
            claim = child(agent, "v1", "PersistentVolumeClaim", name, spec=_claim_spec(volume))
            if volume.restore_from is not None:
                source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": volume.restore_from}
                claim["spec"]["dataSource"] = source
            # With an owner reference the garbage collector deletes the claim with the Agent.
            if volume.on_delete == "Retain":
                del claim["metadata"]["ownerReferences"]
            manifests.append(claim)
    return manifests


def claim_templates(agent: Agent) -> Parts:
    """Return the templates of the claims that each replica has."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": volume.name},
            "spec": _claim_spec(volume),
        }
        for volume in volumes_of(agent)
        if volume.scope == "PerReplica"
    ]


def claim_name(agent: Agent, volume: Volume) -> str:
    """Return the name of a shared claim."""
    return f"{agent.name}-{volume.name}"


def pod_volumes(agent: Agent, facts: Facts, config: str) -> Parts:
    """Return the volumes of a Pod besides those of claim templates."""
    volumes: Parts = [{"name": CONFIG_VOLUME, "configMap": {"name": config}}]
    if agent.spec.expose.protocol == "A2A":
        volumes.append({"name": "agent-card", "configMap": {"name": f"{agent.name}-card"}})
    if facts.topology:
        volumes.append({"name": "agent-topology", "configMap": {"name": facts.topology}})
    if sources := _certificates(agent):
        volumes.append({"name": "agent-databases", "projected": {"sources": sources}})
    for volume in volumes_of(agent):
        if volume.scope == "Shared":
            volumes.append({"name": volume.name, "persistentVolumeClaim": {"claimName": claim_name(agent, volume)}})
    return volumes


def mounts(agent: Agent, facts: Facts) -> Parts:
    """Return the mounts of the agent's containers."""
    mounted: Parts = [_mount(CONFIG_VOLUME, CONFIG_PATH)]
    if agent.spec.expose.protocol == "A2A":
        mounted.append(_mount("agent-card", CARD_PATH))
    if facts.topology:
        mounted.append(_mount("agent-topology", TOPOLOGY_PATH))
    if _certificates(agent):
        mounted.append(_mount("agent-databases", DATABASES_PATH))
    return mounted + [{"name": volume.name, "mountPath": volume.mount_path} for volume in volumes_of(agent)]


def without_claims(template: Manifest) -> Manifest:
    """
    Return a Pod template whose volumes of claims are empty directories, for a preview.

    A preview must not write the data of the serving replicas, nor wait for a disk that they hold.
    """
    spec = template["spec"]
    mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
    kept = [volume for volume in spec["volumes"] if "persistentVolumeClaim" not in volume]
    # Claims of a StatefulSet are in no volume of the template: its controller adds them.
    empty = sorted(mounted - {volume["name"] for volume in kept})
    return {**template, "spec": {**spec, "volumes": kept + [{"name": name, "emptyDir": {}} for name in empty]}}


def _mount(name: str, path: str) -> dict[str, Any]:
    # Read-only: a compromised agent must not change what it is configured with.
    return {"name": name, "mountPath": path, "readOnly": True}


def _certificates(agent: Agent) -> Parts:
    return [
        {"secret": {"name": ref.name, "items": [{"key": ref.key, "path": f"{database.name}/ca.crt"}]}}
        for database in databases(agent)
        if database.tls is not None and (ref := database.tls.ca_secret_key_ref) is not None
    ]


def _claim_spec(volume: Volume) -> dict[str, Any]:
    return compact(
        {
            "accessModes": list(volume.access_modes),
            "storageClassName": volume.storage_class_name,
            "resources": {"requests": {"storage": volume.size}},
        }
    )


def as_created(desired: Manifest, live: Manifest | None) -> Manifest:
    """Return a claim with the data source of the live one, which cannot be changed."""
    # The API server refuses another data source, and defaults dataSource from dataSourceRef.
    if live is None or desired.get("kind") != "PersistentVolumeClaim":
        return desired
    source = at(live, "spec", "dataSource")
    kept = {name: value for name, value in desired["spec"].items() if name != "dataSource"}
    return {**desired, "spec": {**kept, **({"dataSource": source} if source else {})}}
