"""StatefulSets: pods with names and claims of their own, started, updated and removed in order."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController, adopt
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    controlled,
    is_deleting,
    key_of,
    owner_reference,
    without_empty,
)
from gitsync.sandbox.controllers.workloads import revisions
from gitsync.sandbox.registry.contract import ControllerClient


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
    # Garbage collection then deletes the claims (KEP-1847).
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


_SOURCE = EventSource("statefulset-controller")
_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSets(SandboxController):
    """Keep the pods of a StatefulSet, one ordinal after the other unless it says Parallel."""

    name = "statefulset"
    watches = frozenset({("apps", "StatefulSet"), ("", "Pod")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the StatefulSet, or the one that controls the pod."""
        if obj["kind"] == "StatefulSet":
            self.enqueue(key_of(obj))
        else:
            self.mark_owners(obj, "apps", "StatefulSet")

    def reconcile(self, key: Key) -> None:
        """Take the next step and write the status."""
        stateful_set = self.api.get("apps", "StatefulSet", *key)
        if stateful_set is None or is_deleting(stateful_set):
            return
        adopt(self.api, self.context.strays, stateful_set, "", "Pod")
        adopt(self.api, self.context.strays, stateful_set, "apps", "ControllerRevision")
        # Pods that were adopted by labels but have no ordinal are left alone.
        owned = {ordinal_of(pod): pod for pod in controlled(self.api, stateful_set, "Pod") if ordinal_of(pod) >= 0}
        update = revisions.present(self.api, stateful_set)
        known = at(stateful_set, "status", "currentRevision")
        current = self.api.get("apps", "ControllerRevision", key[0], known) if known else None
        status = self._status(stateful_set, owned, current or update, update)
        deleted = self._step(stateful_set, owned, current or update, update)
        if deleted is not None and revision_of(deleted) == status["currentRevision"]:
            status["currentReplicas"] -= 1
        live = {update["metadata"]["name"], status["currentRevision"], *map(revision_of, owned.values())}
        revisions.truncate(self.api, stateful_set, live)
        self.write_status(stateful_set, without_zero(status))

    def _status(
        self, stateful_set: Manifest, owned: dict[int, Manifest], current: Manifest, update: Manifest
    ) -> Manifest:
        """Return the status of the pods that are there, and whether the update is complete."""
        min_ready = stateful_set["spec"].get("minReadySeconds") or 0
        waits = [pods.available_in(pod, min_ready, self.context.timers.now()) for pod in owned.values()]
        if any(waits):
            self.enqueue_after(key_of(stateful_set), min(wait for wait in waits if wait))
        going_on = [revision_of(pod) for pod in owned.values() if not is_deleting(pod)]
        current_name = current["metadata"]["name"]
        update_name = update["metadata"]["name"]
        status = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "replicas": len(owned),
            "readyReplicas": sum(wait is not None for wait in waits),
            "currentReplicas": going_on.count(current_name),
            "updatedReplicas": going_on.count(update_name),
            "currentRevision": current_name,
            "updateRevision": update_name,
            "collisionCount": at(stateful_set, "status", "collisionCount") or 0,
            "availableReplicas": sum(wait == 0 for wait in waits),
        }
        rolling = at(stateful_set, "spec", "updateStrategy", "type") == "RollingUpdate"
        counts = {status[member] for member in ("replicas", "readyReplicas", "updatedReplicas")}
        # completeRollingUpdate: the update becomes the current revision.
        if rolling and counts == {stateful_set["spec"]["replicas"]}:
            status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": update_name}
        return status

    def _step(
        self, stateful_set: Manifest, owned: dict[int, Manifest], current: Manifest, update: Manifest
    ) -> Manifest | None:
        """Create, replace or delete pods as far as the order allows; return a pod that was deleted to be updated."""
        spec = stateful_set["spec"]
        in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        first = at(spec, "ordinals", "start") or 0
        wanted = range(first, first + spec["replicas"])
        for ordinal in wanted:
            pod = owned.get(ordinal)
            if pod is None:
                old = _keeps_current(stateful_set, ordinal - first)
                self._create(stateful_set, ordinal, current if old else update)
            # An evicted or failed pod keeps its name until it is deleted.
            elif pods.is_finished(pod) and not is_deleting(pod):
                self._delete(stateful_set, pod)
            # OrderedReady: the next pod waits until this one is available.
            if in_order and (pod is None or not self._is_available(stateful_set, pod)):
                return None
        for ordinal in sorted((ordinal for ordinal in owned if ordinal not in wanted), reverse=True):
            if not is_deleting(owned[ordinal]):
                # Before the deletion: garbage collection follows the owner reference.
                give_claims_to(self.api, stateful_set, owned[ordinal])
                self._delete(stateful_set, owned[ordinal])
            if in_order:
                return None
        return self._update(stateful_set, owned, wanted, update)

    def _update(
        self, stateful_set: Manifest, owned: dict[int, Manifest], wanted: range, update: Manifest
    ) -> Manifest | None:
        """Delete the last pod that has an old template, once all after it are available again."""
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return None
        partition = at(strategy, "rollingUpdate", "partition") or 0
        # From the highest ordinal down, as the documentation of StatefulSets promises.
        for ordinal in reversed(wanted[partition:]):
            pod = owned.get(ordinal)
            if pod is None:
                return None
            if revision_of(pod) != update["metadata"]["name"] and not is_deleting(pod):
                self._delete(stateful_set, pod)
                return pod
            if not self._is_available(stateful_set, pod):
                return None
        return None

    def _is_available(self, stateful_set: Manifest, pod: Manifest) -> bool:
        min_ready = stateful_set["spec"].get("minReadySeconds") or 0
        return not is_deleting(pod) and pods.available_in(pod, min_ready, self.context.timers.now()) == 0

    def _create(self, stateful_set: Manifest, ordinal: int, revision: Manifest) -> None:
        meta = stateful_set["metadata"]
        name = f"{meta['name']}-{ordinal}"
        for claim in create_claims(self.api, stateful_set, ordinal):
            text = f"create Claim {claim} Pod {name} in StatefulSet {meta['name']} success"
            self.context.recorder.normal(stateful_set, "SuccessfulCreate", text, _SOURCE)
        self.api.create(_pod(stateful_set, ordinal, revision), manager=MANAGER)
        text = f"create Pod {name} in StatefulSet {meta['name']} successful"
        self.context.recorder.normal(stateful_set, "SuccessfulCreate", text, _SOURCE)

    def _delete(self, stateful_set: Manifest, pod: Manifest) -> None:
        meta = pod["metadata"]
        self.api.delete(ObjectRef("", "Pod", meta["namespace"], meta["name"]), uid=meta["uid"])
        text = f"delete Pod {meta['name']} in StatefulSet {stateful_set['metadata']['name']} successful"
        self.context.recorder.normal(stateful_set, "SuccessfulDelete", text, _SOURCE)


def ordinal_of(pod: Manifest) -> int:
    """Return the number at the end of the pod's name, -1 where there is none."""
    text = pod["metadata"]["name"].rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def revision_of(pod: Manifest) -> str:
    """Return the name of the revision that the pod was made from."""
    return labels_of(pod).get(revisions.LABEL, "")


def without_zero(status: Manifest) -> Manifest:
    """Return the status as it is stored: three of the counts are left out when they are zero."""
    # availableReplicas has no omitempty in the real type.
    optional = ("readyReplicas", "currentReplicas", "updatedReplicas")
    return {key: value for key, value in status.items() if key not in optional} | without_empty(
        {key: status[key] for key in optional}
    )


def _keeps_current(stateful_set: Manifest, position: int) -> bool:
    """Return whether a pod that is recreated still gets the template from before the update."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return False
    # Without a partition the pods below currentReplicas have not been updated yet (newVersionedStatefulSetPod).
    if "rollingUpdate" not in strategy:
        return bool(position < (at(stateful_set, "status", "currentReplicas") or 0))
    return bool(position < (strategy["rollingUpdate"].get("partition") or 0))


def _pod(stateful_set: Manifest, ordinal: int, revision: Manifest) -> Manifest:
    meta = stateful_set["metadata"]
    template = revisions.template_at(stateful_set, revision)
    name = f"{meta['name']}-{ordinal}"
    labels = {
        **labels_of(template),
        _POD_INDEX: str(ordinal),
        revisions.LABEL: revision["metadata"]["name"],
        _POD_NAME: name,
    }
    pod = pods.from_template(template, stateful_set, name=name, labels=labels)
    claims = [claim["metadata"]["name"] for claim in stateful_set["spec"].get("volumeClaimTemplates") or ()]
    volumes = [
        {
            "name": template_name,
            "persistentVolumeClaim": {"claimName": claim_name(stateful_set, template_name, ordinal)},
        }
        for template_name in claims
    ]
    # A claim replaces a volume of its name.
    volumes += [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
    spec = {**pod["spec"], "hostname": name, "subdomain": stateful_set["spec"].get("serviceName", "")}
    # Members that a template sets to an empty value stay: only those added here are left out when empty.
    return {**pod, "spec": without_empty({**spec, "volumes": volumes}) | _kept_empty(spec)}


def _kept_empty(spec: Manifest) -> Manifest:
    return {key: value for key, value in spec.items() if not value and key not in ("subdomain", "volumes")}
