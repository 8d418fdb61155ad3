"""DaemonSets: one pod on each node that the template accepts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController, adopt
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.nodes.scheduler import accepts, target_of, untolerated
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    controlled,
    is_deleting,
    key_of,
    without_empty,
)
from gitsync.sandbox.controllers.workloads import revisions
from gitsync.sandbox.controllers.workloads.rollout import resolve

_SOURCE = EventSource("daemonset-controller")
_GENERATION = "deprecated.daemonset.template.generation"
# pkg/controller/daemon/util: AddOrUpdateDaemonPodTolerations.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class _Node:
    """What a DaemonSet has on one node: pods of the present template, and others."""

    name: str
    wanted: bool
    new: tuple[Manifest, ...]
    old: tuple[Manifest, ...]
    leaving: bool
    """Whether a pod is still being stopped there."""

    @property
    def all(self) -> tuple[Manifest, ...]:
        """All pods of the DaemonSet on the node."""
        return self.new + self.old


class DaemonSets(SandboxController):
    """Create a pod per node, remove those that should not be there, and update within the allowed outage."""

    name = "daemonset"
    watches = frozenset({("apps", "DaemonSet"), ("", "Pod"), ("", "Node")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the DaemonSet, the one that controls the pod, or all of them when a node comes, changes or goes."""
        if obj["kind"] == "DaemonSet":
            self.enqueue(key_of(obj))
        elif obj["kind"] == "Node":
            if old is None or event == "DELETED" or (obj["spec"], labels_of(obj)) != (old["spec"], labels_of(old)):
                for daemon_set in self.api.list("apps", "DaemonSet"):
                    self.enqueue(key_of(daemon_set))
        else:
            self.mark_owners(obj, "apps", "DaemonSet")

    def reconcile(self, key: Key) -> None:
        """Bring each node to its pod, then report."""
        daemon_set = self.api.get("apps", "DaemonSet", *key)
        if daemon_set is None or is_deleting(daemon_set):
            return
        adopt(self.api, self.context.strays, daemon_set, "", "Pod")
        adopt(self.api, self.context.strays, daemon_set, "apps", "ControllerRevision")
        update = revisions.present(self.api, daemon_set)
        self._place(daemon_set, self._nodes(daemon_set, update), update)
        # Read again: placing has created and deleted pods.
        self._roll_out(daemon_set, self._nodes(daemon_set, update), update)
        revisions.truncate(self.api, daemon_set, self._live_revisions(daemon_set, update))
        self.write_status(daemon_set, self._status(daemon_set, self._nodes(daemon_set, update)))

    def _live_revisions(self, daemon_set: Manifest, update: Manifest) -> set[str]:
        name = daemon_set["metadata"]["name"]
        hashes = {labels_of(pod).get(revisions.LABEL, "") for pod in controlled(self.api, daemon_set, "Pod")}
        return {update["metadata"]["name"], *(f"{name}-{digest}" for digest in hashes)}

    def _nodes(self, daemon_set: Manifest, update: Manifest) -> list[_Node]:
        """Return the nodes that have or should have a pod."""
        present = revision_hash(update)
        by_node: defaultdict[str, list[Manifest]] = defaultdict(list)
        for pod in controlled(self.api, daemon_set, "Pod"):
            by_node[target_of(pod)].append(pod)

        def staying(name: str) -> list[Manifest]:
            return [pod for pod in by_node[name] if not is_deleting(pod)]

        # With the tolerations that its pods will get, or a tainted node would count as unwanted.
        spec = _pod_spec(daemon_set["spec"]["template"]["spec"], "")
        wanted = {
            node["metadata"]["name"]
            for node in self.api.list("", "Node")
            if accepts(daemon_set["spec"]["template"]["spec"], node) and untolerated(spec, node) is None
        }
        return [
            _Node(
                name,
                name in wanted,
                tuple(pod for pod in staying(name) if labels_of(pod).get(revisions.LABEL) == present),
                tuple(pod for pod in staying(name) if labels_of(pod).get(revisions.LABEL) != present),
                any(is_deleting(pod) for pod in by_node[name]),
            )
            for name in sorted(wanted | by_node.keys())
        ]

    def _place(self, daemon_set: Manifest, nodes: list[_Node], update: Manifest) -> None:
        """Create the pods that are missing; delete failed ones and those that should not be there."""
        for node in nodes:
            if not node.wanted:
                for pod in node.all:
                    self._delete(daemon_set, pod)
                continue
            for pod in node.all:
                if pods.is_finished(pod):
                    self._delete(daemon_set, pod)
            for pod in node.new[1:]:
                self._delete(daemon_set, pod)
            # A host port of the pod that is being stopped would still be in use.
            if not node.all and not node.leaving:
                self._create(daemon_set, node.name, update)

    def _roll_out(self, daemon_set: Manifest, nodes: list[_Node], update: Manifest) -> None:
        """Replace pods of an older template, as many at a time as the strategy allows."""
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        wanted = [node for node in nodes if node.wanted]
        rolling = strategy.get("rollingUpdate") or {}
        surge = resolve(rolling.get("maxSurge", 0), len(wanted), round_up=True)
        outage = resolve(rolling.get("maxUnavailable", 1), len(wanted), round_up=True)
        down = sum(not any(self._is_available(daemon_set, pod) for pod in node.all) for node in wanted)
        extra = sum(bool(node.new and node.old) for node in wanted)
        for node in wanted:
            if not node.old:
                continue
            healthy = any(self._is_available(daemon_set, pod) for pod in node.old)
            # Surge: the old pod stays until the new one can take over.
            if node.new and any(self._is_available(daemon_set, pod) for pod in node.new):
                self._delete(daemon_set, node.old[0])
            elif surge and not node.new:
                if extra < surge:
                    extra += 1
                    self._create(daemon_set, node.name, update)
            # A pod that is down already costs no availability.
            elif not node.new and (not healthy or down < outage):
                down += healthy
                self._delete(daemon_set, node.old[0])

    def _is_available(self, daemon_set: Manifest, pod: Manifest) -> bool:
        wait = pods.available_in(pod, daemon_set["spec"].get("minReadySeconds") or 0, self.context.timers.now())
        if wait:
            self.enqueue_after(key_of(daemon_set), wait)
        return wait == 0

    def _status(self, daemon_set: Manifest, nodes: list[_Node]) -> Manifest:
        wanted = [node for node in nodes if node.wanted]
        ready = [node for node in wanted if any(pods.is_ready(pod) for pod in node.all)]
        available = [node for node in wanted if any(self._is_available(daemon_set, pod) for pod in node.all)]
        optional = {
            "updatedNumberScheduled": sum(bool(node.new) for node in wanted),
            "numberAvailable": len(available),
            "numberUnavailable": len(wanted) - len(available),
            "collisionCount": at(daemon_set, "status", "collisionCount"),
        }
        return {
            "currentNumberScheduled": sum(bool(node.all) or node.leaving for node in wanted),
            "numberMisscheduled": sum(bool(node.all) for node in nodes if not node.wanted),
            "desiredNumberScheduled": len(wanted),
            "numberReady": len(ready),
            "observedGeneration": daemon_set["metadata"]["generation"],
            **without_empty(optional),
        }

    def _create(self, daemon_set: Manifest, node: str, update: Manifest) -> None:
        template = daemon_set["spec"]["template"]
        generation = annotations_of(daemon_set).get(_GENERATION, "1")
        labels = {
            **labels_of(template),
            revisions.LABEL: revision_hash(update),
            "pod-template-generation": generation,
        }
        pod = pods.from_template(template, daemon_set, labels=labels)
        pod = self.api.create({**pod, "spec": _pod_spec(pod["spec"], node)}, manager=MANAGER)
        text = f"Created pod: {pod['metadata']['name']}"
        self.context.recorder.normal(daemon_set, "SuccessfulCreate", text, _SOURCE)

    def _delete(self, daemon_set: Manifest, pod: Manifest) -> None:
        meta = pod["metadata"]
        self.api.delete(ObjectRef("", "Pod", meta["namespace"], meta["name"]), uid=meta["uid"])
        self.context.recorder.normal(daemon_set, "SuccessfulDelete", f"Deleted pod: {meta['name']}", _SOURCE)


def revision_hash(revision: Manifest) -> str:
    """Return the hash at the end of a revision's name, by which the pods of a DaemonSet are labelled."""
    return str(revision["metadata"]["name"].rpartition("-")[2])


def _pod_spec(spec: Manifest, node: str) -> Manifest:
    """Return the pod spec for one node: bound to it by affinity, tolerating what daemons tolerate."""
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    known = list(spec.get("tolerations") or ())
    # By affinity instead of spec.nodeName, so that the scheduler keeps count of the node.
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": required,
    }
    return {
        **spec,
        "affinity": {**affinity, "nodeAffinity": node_affinity},
        "tolerations": known + [toleration for toleration in added if toleration not in known],
    }
