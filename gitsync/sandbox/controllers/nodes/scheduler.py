"""Scheduler: assign each pod to the first node that has room for it and that it accepts."""

from __future__ import annotations

from collections import Counter, defaultdict

from gitsync.kube.quantity import parse
from gitsync.kube.selectors import holds
from gitsync.objects.manifest import Manifest, at, labels_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.base import ControllerContext, SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import Key, condition_of, is_deleting, key_of
from gitsync.sandbox.controllers.pods import is_finished


def accepts(pod_spec: Manifest, node: Manifest) -> bool:
    """Return whether the node is one that the pod's nodeSelector and required node affinity name."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    required = at(pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms")
    # An absent affinity accepts all nodes; validation refuses an empty list.
    if not terms:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(holds(rule, labels) for rule in term.get("matchExpressions") or ())
        and all(holds(rule, fields) for rule in term.get("matchFields") or ())
        for term in terms
    )


def untolerated(pod_spec: Manifest, node: Manifest) -> Manifest | None:
    """Return a taint of the node that keeps the pod away, None when there is none."""
    tolerations = pod_spec.get("tolerations") or ()
    for taint in at(node, "spec", "taints") or ():
        # PreferNoSchedule only lowers a score.
        hard = taint["effect"] in ("NoSchedule", "NoExecute")
        if hard and not any(_is_tolerated_by(toleration, taint) for toleration in tolerations):
            return dict(taint)
    return None


def target_of(pod: Manifest) -> str:
    """Return the node a pod runs on or, made for one node only, waits for; empty where there is none."""
    node = at(pod, "spec", "nodeName")
    if node:
        return str(node)
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0)
    for rule in at(pod["spec"], *path, "matchFields") or ():
        if rule["key"] == "metadata.name" and rule["operator"] == "In":
            return str(rule["values"][0])
    return ""


def _is_tolerated_by(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        # An empty key with Exists tolerates everything.
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


_MANAGER = "kube-scheduler"
_SOURCE = EventSource("default-scheduler")
_RESOURCES = ("cpu", "memory")
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Scheduler(SandboxController):
    """Bind pods to nodes; say why where it cannot, and try again when something changed."""

    name = "scheduler"
    watches = frozenset({("", "Pod"), ("", "Node"), ("", "PersistentVolumeClaim")})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._unschedulable: set[Key] = set()
        self._usage = Usage()

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark a pod that has no node; what frees or adds room marks those that no node could take."""
        if obj["kind"] != "Pod":
            self._retry()
            return
        node = at(obj, "spec", "nodeName")
        if event == "DELETED" or is_finished(obj):
            self._unschedulable.discard(key_of(obj))
            if self._usage.release(uid_of(obj)):
                self._retry()
        elif node:
            self._usage.take(obj, node)
        elif event == "ADDED" or old is None or old["spec"] != obj["spec"]:
            self.enqueue(key_of(obj))

    def _retry(self) -> None:
        for key in sorted(self._unschedulable):
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        """Bind the pod, or report why not."""
        pod = self.api.get("", "Pod", *key)
        if pod is None or is_deleting(pod) or at(pod, "spec", "nodeName") or pod["spec"].get("schedulingGates"):
            self._unschedulable.discard(key)
            return
        if pod["spec"].get("schedulerName", "default-scheduler") != "default-scheduler":
            return
        nodes = list(self.api.list("", "Node"))
        claims = self._unbound_claims(pod)
        if any(self._is_immediate(claim) for claim in claims):
            self._refuse(pod, nodes, "pod has unbound immediate PersistentVolumeClaims", "not found")
            return
        reasons = {node["metadata"]["name"]: self._objection(pod, node) for node in nodes}
        siblings = self._siblings(pod)
        fitting = sorted(name for name, reason in reasons.items() if not reason)
        # Ties go to the first name, since the names are sorted: placement is repeatable.
        chosen = min(fitting, key=lambda name: siblings[name], default=None)
        if chosen is None:
            counts = Counter(reasons.values())
            text = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            victims = f"{len(nodes)} No preemption victims found for incoming pod"
            self._refuse(pod, nodes, text, f"preemption: 0/{len(nodes)} nodes are available: {victims}.")
        # The volume is made first, on this node; its binding brings the pod back here.
        elif claims:
            self._unschedulable.add(key)
            self._select_node(claims, chosen)
        else:
            self._bind(pod, chosen)

    def _siblings(self, pod: Manifest) -> Counter[str]:
        """Return how many pods of the same controller each node has: they are spread."""
        owners = [owner["uid"] for owner in pod["metadata"].get("ownerReferences") or () if owner.get("controller")]
        others = self.api.owned_by(owners[0]) if owners else ()
        return Counter(str(at(other, "spec", "nodeName") or "") for other in others if other["kind"] == "Pod")

    def _unbound_claims(self, pod: Manifest) -> list[Manifest | None]:
        """Return the claims of the pod that have no volume yet; None for a claim that does not exist."""
        namespace = pod["metadata"]["namespace"]
        names = [
            at(volume, "persistentVolumeClaim", "claimName") or _ephemeral_claim(pod, volume)
            for volume in pod["spec"].get("volumes") or ()
        ]
        claims = [self.api.get("", "PersistentVolumeClaim", namespace, name) for name in names if name]
        return [claim for claim in claims if claim is None or at(claim, "status", "phase") != "Bound"]

    def _is_immediate(self, claim: Manifest | None) -> bool:
        """Return whether a claim will not wait for the pod that uses it."""
        name = at(claim, "spec", "storageClassName")
        storage = self.api.get("storage.k8s.io", "StorageClass", "", name) if name else None
        return bool(at(storage, "volumeBindingMode") != "WaitForFirstConsumer")

    def _select_node(self, claims: list[Manifest | None], node: str) -> None:
        """Let the volumes of the claims be made on the node; the pod is bound once they are."""
        for claim in claims:
            if claim is not None and SELECTED_NODE not in (claim["metadata"].get("annotations") or {}):
                patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
                self.api.patch(ObjectRef("", "PersistentVolumeClaim", *key_of(claim)), patch, manager=_MANAGER)

    def _objection(self, pod: Manifest, node: Manifest) -> str:
        """Return why the node cannot take the pod, empty when it can."""
        if at(node, "spec", "unschedulable"):
            return "node(s) were unschedulable"
        taint = untolerated(pod["spec"], node)
        if taint is not None:
            value = taint.get("value", "")
            return f"node(s) had untolerated taint(s) {{{taint['key']}: {value}}}"
        if not accepts(pod["spec"], node):
            return "node(s) didn't match Pod's node affinity/selector"
        name = node["metadata"]["name"]
        allocatable = at(node, "status", "allocatable") or {}
        for resource, amount in requests_of(pod).items():
            if amount > parse(allocatable.get(resource, "0")).nanos - self._usage.of(name, resource):
                return "Too many pods" if resource == "pods" else f"Insufficient {resource}"
        return ""

    def _bind(self, pod: Manifest, node: str) -> None:
        self._unschedulable.discard(key_of(pod))
        # Before the write: its event would find the pod counted already.
        self._usage.take(pod, node)
        scheduled = {**self._condition(pod, "True"), "lastTransitionTime": None}  # the kubelet says when
        conditions = [
            condition for condition in at(pod, "status", "conditions") or () if condition["type"] != "PodScheduled"
        ]
        bound = {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**(pod.get("status") or {}), "conditions": [*conditions, scheduled]},
        }
        self.api.update(bound, manager=_MANAGER, subresource="binding")
        namespace, name = key_of(pod)
        text = f"Successfully assigned {namespace}/{name} to {node}"
        self.context.recorder.normal(pod, "Scheduled", text, _SOURCE)

    def _refuse(self, pod: Manifest, nodes: list[Manifest], reason: str, preemption: str) -> None:
        self._unschedulable.add(key_of(pod))
        message = f"0/{len(nodes)} nodes are available: {reason}. {preemption}"
        known = condition_of(pod, "PodScheduled")
        if (known.get("reason"), known.get("message")) == ("Unschedulable", message):
            return
        unscheduled = {**self._condition(pod, "False"), "reason": "Unschedulable", "message": message}
        others = [
            condition for condition in at(pod, "status", "conditions") or () if condition["type"] != "PodScheduled"
        ]
        self.write_status(pod, {**(pod.get("status") or {}), "conditions": [*others, unscheduled]}, _MANAGER)
        self.context.recorder.warning(pod, "FailedScheduling", message, _SOURCE)

    def _condition(self, pod: Manifest, status: str) -> Manifest:
        known = condition_of(pod, "PodScheduled")
        since = known["lastTransitionTime"] if known.get("status") == status else self.context.now()
        return {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }


class Usage:
    """What the pods on each node asked for, in sum."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}
        self._sums: defaultdict[tuple[str, str], int] = defaultdict(int)

    def take(self, pod: Manifest, node: str) -> None:
        """Count a pod on a node; counting it again changes nothing."""
        if uid_of(pod) not in self._pods:
            asked = requests_of(pod)
            self._pods[uid_of(pod)] = (node, asked)
            for resource, amount in asked.items():
                self._sums[node, resource] += amount

    def release(self, uid: str) -> bool:
        """Stop counting a pod; return whether it was counted."""
        node, asked = self._pods.pop(uid, ("", {}))
        for resource, amount in asked.items():
            self._sums[node, resource] -= amount
        return bool(node)

    def of(self, node: str, resource: str) -> int:
        """Return how much of a resource is taken on a node."""
        return self._sums[node, resource]


def requests_of(pod: Manifest) -> dict[str, int]:
    """Return what the pod asks of a node: a place, and the sum of its containers or its largest init container."""
    # A place on the node, by the limit of pods that a kubelet has.
    total = {"pods": parse("1").nanos}
    for resource in _RESOURCES:
        # Init containers run before the others, one by one, so only the largest counts.
        running = sum((_asked(container, resource) for container in pod["spec"]["containers"]), 0)
        starting = max(
            (_asked(container, resource) for container in pod["spec"].get("initContainers") or ()), default=0
        )
        if running or starting:
            total[resource] = max(running, starting)
    return total


def _asked(container: Manifest, resource: str) -> int:
    return parse(at(container, "resources", "requests", resource, default="0")).nanos


def _ephemeral_claim(pod: Manifest, volume: Manifest) -> str:
    return f"{pod['metadata']['name']}-{volume['name']}" if "ephemeral" in volume else ""
