"""The claims of a StatefulSet: one per pod and template, kept or removed as its retention policy says."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.client import ControllerClient
from gitsync.sandbox.controllers.object_meta import MANAGER, owner_reference


def claim_name(stateful_set: Manifest, template: str, ordinal: int) -> str:
    """Return the name of the claim that a pod gets from a claim template."""
    return f"{template}-{stateful_set['metadata']['name']}-{ordinal}"


def create_claims(api: ControllerClient, stateful_set: Manifest, ordinal: int) -> list[str]:
    """Create the claims of one pod that are absent; return their names."""
    namespace = stateful_set["metadata"]["namespace"]
    created = []
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        name = claim_name(stateful_set, template["metadata"]["name"], ordinal)
        if api.get("", "PersistentVolumeClaim", namespace, name) is None:
            api.create(_claim(stateful_set, template, name), manager=MANAGER)
            created.append(name)
    return created


def _claim(stateful_set: Manifest, template: Manifest, name: str) -> Manifest:
    labels = {
        **(template["metadata"].get("labels") or {}),
        **(stateful_set["spec"]["selector"].get("matchLabels") or {}),
    }
    metadata = {
        "name": name,
        "namespace": stateful_set["metadata"]["namespace"],
        "labels": labels,
        "annotations": template["metadata"].get("annotations") or {},
    }
    if _policy(stateful_set, "whenDeleted") == "Delete":
        metadata["ownerReferences"] = [_plain_owner(stateful_set)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": template["spec"],
    }


def give_claims_to(api: ControllerClient, stateful_set: Manifest, pod: Manifest) -> None:
    """Make a pod that is scaled away the owner of its claims, where they shall go with it."""
    if _policy(stateful_set, "whenScaled") != "Delete":
        return
    namespace = pod["metadata"]["namespace"]
    ordinal = int(pod["metadata"]["name"].rpartition("-")[2])
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        name = claim_name(stateful_set, template["metadata"]["name"], ordinal)
        if api.get("", "PersistentVolumeClaim", namespace, name) is not None:
            patch = {"metadata": {"ownerReferences": [_plain_owner(pod)]}}
            api.patch(ObjectRef("", "PersistentVolumeClaim", namespace, name), patch, manager=MANAGER)


def _policy(stateful_set: Manifest, when: str) -> str:
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return str(policy.get(when, "Retain"))


def _plain_owner(owner: Manifest) -> Manifest:
    """Return an ownerReference that neither controls nor blocks."""
    reference = owner_reference(owner)
    return {key: reference[key] for key in ("apiVersion", "kind", "name", "uid")}
