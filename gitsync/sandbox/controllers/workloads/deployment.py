"""
Deployment controller: a ReplicaSet per template, the rollout from the old one to the new one, and the status.

The status has the counts, and the conditions Available, Progressing and ReplicaFailure.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from gitsync.kube.times import seconds_of
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController, adopt
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    condition_of,
    controlled,
    is_deleting,
    key_of,
    owner_reference,
    without_empty,
)
from gitsync.sandbox.controllers.workloads import rollout

_SOURCE = EventSource("deployment-controller")
# pkg/controller/deployment/util: annotationsToSkip.
_NOT_COPIED = frozenset(
    {
        LAST_APPLIED,
        rollout.REVISION,
        rollout.REVISION_HISTORY,
        rollout.DESIRED,
        rollout.MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)


class Deployments(SandboxController):
    """Create, scale and clean up the ReplicaSets of a Deployment, and report."""

    name = "deployment"
    watches = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the Deployment, or the one that controls the ReplicaSet."""
        if obj["kind"] == "Deployment":
            self.enqueue(key_of(obj))
        else:
            self.mark_owners(obj, "apps", "Deployment")

    def reconcile(self, key: Key) -> None:
        """Take the next step of the rollout and write the status."""
        deployment = self.api.get("apps", "Deployment", *key)
        if deployment is None:
            return
        adopt(self.api, self.context.strays, deployment, "apps", "ReplicaSet")
        if is_deleting(deployment):
            old, new = self._replica_sets(deployment)
            # syncStatusOnly: a Deployment that waits for a foreground deletion still counts its pods.
            self._write(deployment, failure(self._counts(deployment, old, new), old, new))
            return
        deployment = self._note_pause(deployment)
        old, new = self._replica_sets(deployment)
        if deployment["spec"].get("paused") or self._was_scaled(deployment, [*old, *([new] if new else [])]):
            self._scale(deployment, old, new)
            if deployment["spec"].get("paused"):
                self._clean_up(deployment, old)
            old, new = self._replica_sets(deployment)
            self._write(deployment, self._counts(deployment, old, new))
            return
        self._roll_out(deployment, old, new)

    def _replica_sets(self, deployment: Manifest) -> tuple[list[Manifest], Manifest | None]:
        """Return the old ReplicaSets and the one of the present template, if it exists."""
        owned = controlled(self.api, deployment, "ReplicaSet")
        new = next((replica_set for replica_set in owned if rollout.same_template(replica_set, deployment)), None)
        return [replica_set for replica_set in owned if replica_set is not new], new

    def _note_pause(self, deployment: Manifest) -> Manifest:
        """Write condition Progressing=Unknown when the Deployment is paused and when it is resumed."""
        if not has_deadline(deployment):
            return deployment
        paused = deployment["spec"].get("paused", False)
        reason = condition_of(deployment, "Progressing").get("reason")
        # A pause must not hide that the deadline was missed.
        if reason == TIMED_OUT or paused == (reason == PAUSED):
            return deployment
        why, text = (PAUSED, "paused") if paused else (RESUMED, "resumed")
        noted = condition("Progressing", "Unknown", why, f"Deployment is {text}", self.context.now())
        status = deployment.get("status") or {}
        conditions = with_condition(status.get("conditions") or (), noted)
        return self._update({**deployment, "status": {**status, "conditions": conditions}})

    @staticmethod
    def _was_scaled(deployment: Manifest, replica_sets: Sequence[Manifest]) -> bool:
        """Return whether ``spec.replicas`` changed since the active ReplicaSets were sized."""
        desired = str(deployment["spec"]["replicas"])
        active = [replica_set for replica_set in replica_sets if replica_set["spec"]["replicas"]]
        return any(annotations_of(replica_set).get(rollout.DESIRED, desired) != desired for replica_set in active)

    def _scale(self, deployment: Manifest, old: list[Manifest], new: Manifest | None) -> None:
        """Bring the ReplicaSets to ``spec.replicas`` without a step of the rollout."""
        total = deployment["spec"]["replicas"]
        active = [replica_set for replica_set in [*old, *([new] if new else [])] if replica_set["spec"]["replicas"]]
        single = _single(active, old, new)
        if single is not None:
            self._resize(deployment, single, total)
        elif new is not None and _is_saturated(deployment, new):
            for replica_set in old:
                self._resize(deployment, replica_set, 0)
        elif rollout.is_rolling(deployment):
            for name, number in rollout.proportions(deployment, active).items():
                self._resize(
                    deployment,
                    next(replica_set for replica_set in active if replica_set["metadata"]["name"] == name),
                    number,
                )

    def _roll_out(self, deployment: Manifest, old: list[Manifest], new: Manifest | None) -> None:
        """Take one step from the old ReplicaSets to the new one, up or down, and report."""
        # Recreate: nothing new before the last old pod has ended.
        if not rollout.is_rolling(deployment) and self._stop_old(deployment, old):
            self._report(deployment, old, new)
            return
        # Its number is decided at creation, so that the first pods start with it.
        deployment, new = self._new_replica_set(deployment, old, new)
        number = rollout.new_replicas(deployment, [*old, new], new["spec"]["replicas"])
        # The Deployment was scaled down.
        if new["spec"]["replicas"] > deployment["spec"]["replicas"]:
            number = deployment["spec"]["replicas"]
        if number != new["spec"]["replicas"]:
            new = self._resize(deployment, new, number)
        elif rollout.is_rolling(deployment):
            smaller = rollout.old_replicas(deployment, old, new)
            old = [
                self._resize(deployment, replica_set, smaller[replica_set["metadata"]["name"]])
                if replica_set["metadata"]["name"] in smaller
                else replica_set
                for replica_set in old
            ]
        if is_complete(deployment, deployment.get("status") or {}):
            old = self._clean_up(deployment, old)
        self._report(deployment, old, new)

    def _stop_old(self, deployment: Manifest, old: list[Manifest]) -> bool:
        """Scale the old ReplicaSets to 0 (Recreate); return whether any of their pods still runs."""
        scaled = False
        for index, replica_set in enumerate(old):
            if replica_set["spec"]["replicas"]:
                old[index] = self._resize(deployment, replica_set, 0)
                scaled = True
        running = any(
            not pods.is_finished(pod) for replica_set in old for pod in controlled(self.api, replica_set, "Pod")
        )
        return scaled or running

    def _report(self, deployment: Manifest, old: list[Manifest], new: Manifest | None) -> None:
        timers = self.context.timers
        status = self._counts(deployment, old, new)
        status = progress(deployment, status, new, timers.now(), self.context.now())
        written = self._write(deployment, failure(status, old, new))
        deadline = deadline_in(written, timers.now())
        if deadline is not None:
            # A little after the deadline, which has passed then by every rounding.
            self.enqueue_after(key_of(deployment), max(0.0, deadline) + 0.01)

    def _counts(self, deployment: Manifest, old: list[Manifest], new: Manifest | None) -> Manifest:
        return counts(deployment, old, new, self.context.now())

    def _write(self, deployment: Manifest, status: Manifest) -> Manifest:
        if deployment.get("status") == status:
            return deployment
        return self._update({**deployment, "status": status})

    def _update(self, deployment: Manifest) -> Manifest:
        return self.api.update(deployment, manager=MANAGER, subresource="status")

    def _new_replica_set(
        self, deployment: Manifest, old: list[Manifest], new: Manifest | None
    ) -> tuple[Manifest, Manifest]:
        """Create the ReplicaSet of the present template or bring its revision up to date; note it in the Deployment."""
        # The revision of a rolled back template becomes the newest, and its number changes.
        revision = str(max([rollout.revision_of(replica_set) for replica_set in old], default=0) + 1)
        progressing: Manifest | None = None
        if new is None:
            new = self._create(deployment, old, revision)
            name = new["metadata"]["name"]
            text = f'Created new replica set "{name}"'
            progressing = condition("Progressing", "True", NEW_CREATED, text, self.context.now())
        else:
            new = self._annotate(deployment, new, revision)
            if not condition_of(deployment, "Progressing"):
                text = f'Found new replica set "{new["metadata"]["name"]}"'
                progressing = condition("Progressing", "True", NEW_FOUND, text, self.context.now())
        return self._write_progress(deployment, new, progressing), new

    def _write_progress(self, deployment: Manifest, new: Manifest, progressing: Manifest | None) -> Manifest:
        """Write the revision annotation and the condition, in one write of the status."""
        noted = deployment
        revision = annotations_of(new)[rollout.REVISION]
        if annotations_of(deployment).get(rollout.REVISION) != revision:
            annotations = {**annotations_of(deployment), rollout.REVISION: revision}
            noted = {**noted, "metadata": {**noted["metadata"], "annotations": annotations}}
        if progressing is not None and has_deadline(deployment):
            status = deployment.get("status") or {}
            conditions = with_condition(status.get("conditions") or (), progressing)
            noted = {**noted, "status": {**status, "conditions": conditions}}
        return noted if noted is deployment else self._update(noted)

    def _create(self, deployment: Manifest, old: list[Manifest], revision: str) -> Manifest:
        template = rollout.template_of(deployment)
        text = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
        # Another hash than the real one, with the same alphabet: clients may only rely on it being stable.
        name_hash = pods.template_hash(text)
        labels = {**labels_of(template), rollout.HASH_LABEL: name_hash}
        selector = deployment["spec"]["selector"]
        meta = deployment["metadata"]
        spec = {
            "replicas": rollout.new_replicas(deployment, old, 0),
            "minReadySeconds": deployment["spec"].get("minReadySeconds"),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), rollout.HASH_LABEL: name_hash},
            },
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        }
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{name_hash}",
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": self._annotations(deployment, {}, revision),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        created = self.api.create(replica_set, manager=MANAGER)
        if spec["replicas"]:
            # Real events name creation by this text too.
            self._record_scaling(deployment, created, 0, spec["replicas"])
        return created

    def _annotations(self, deployment: Manifest, known: Manifest, revision: str) -> dict[str, str]:
        """Return the annotations of the new ReplicaSet: the Deployment's, the revision, and its measures."""
        copied = {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}
        total = deployment["spec"]["replicas"]
        annotations = {
            **known,
            **copied,
            rollout.REVISION: revision,
            rollout.DESIRED: str(total),
            rollout.MAXIMUM: str(total + rollout.max_surge(deployment)),
        }
        old_revision = known.get(rollout.REVISION)
        if old_revision and old_revision != revision:
            history = known.get(rollout.REVISION_HISTORY, "")
            annotations[rollout.REVISION_HISTORY] = f"{history},{old_revision}" if history else old_revision
        return annotations

    def _annotate(self, deployment: Manifest, new: Manifest, revision: str) -> Manifest:
        known = annotations_of(new)
        if rollout.revision_of(new) > int(revision):
            revision = known[rollout.REVISION]
        annotations = self._annotations(deployment, known, revision)
        min_ready = deployment["spec"].get("minReadySeconds")
        if annotations == known and new["spec"].get("minReadySeconds") == min_ready:
            return new
        meta = {**new["metadata"], "annotations": annotations}
        spec = {**new["spec"], "minReadySeconds": min_ready}
        spec = {key: value for key, value in spec.items() if value is not None}
        return self.api.update({**new, "metadata": meta, "spec": spec}, manager=MANAGER)

    def _resize(self, deployment: Manifest, replica_set: Manifest, number: int) -> Manifest:
        """Write ``spec.replicas`` and the measures of a ReplicaSet, and record an event."""
        total = deployment["spec"]["replicas"]
        annotations = {
            **annotations_of(replica_set),
            rollout.DESIRED: str(total),
            rollout.MAXIMUM: str(total + rollout.max_surge(deployment)),
        }
        old_number = replica_set["spec"]["replicas"]
        if number == old_number and annotations == annotations_of(replica_set):
            return replica_set
        meta = {**replica_set["metadata"], "annotations": annotations}
        spec = {**replica_set["spec"], "replicas": number}
        resized = self.api.update({**replica_set, "metadata": meta, "spec": spec}, manager=MANAGER)
        if number != old_number:
            self._record_scaling(deployment, resized, old_number, number)
        return resized

    def _record_scaling(self, deployment: Manifest, replica_set: Manifest, old_number: int, new_number: int) -> None:
        direction = "up" if new_number > old_number else "down"
        text = f"Scaled {direction} replica set {replica_set['metadata']['name']} from {old_number} to {new_number}"
        self.context.recorder.normal(deployment, "ScalingReplicaSet", text, _SOURCE)

    def _clean_up(self, deployment: Manifest, old: list[Manifest]) -> list[Manifest]:
        """Delete the oldest of the empty ReplicaSets beyond ``revisionHistoryLimit``; return those that stay."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        empty = [
            replica_set
            for replica_set in old
            if not replica_set["spec"]["replicas"]
            and not at(replica_set, "status", "replicas")
            and not is_deleting(replica_set)
        ]
        surplus = sorted(empty, key=rollout.revision_of)[: max(0, len(empty) - limit)]
        for replica_set in surplus:
            meta = replica_set["metadata"]
            self.api.delete(ObjectRef("apps", "ReplicaSet", meta["namespace"], meta["name"]), uid=meta["uid"])
        return [replica_set for replica_set in old if replica_set not in surplus]


def _single(active: list[Manifest], old: list[Manifest], new: Manifest | None) -> Manifest | None:
    """Return the one ReplicaSet to size: the only active one, or the latest when none is; None when several are."""
    if active:
        return active[0] if len(active) == 1 else None
    return new or (old[-1] if old else None)


def _is_saturated(deployment: Manifest, replica_set: Manifest) -> bool:
    """Return whether the ReplicaSet has all the pods that the Deployment wants, available."""
    total = deployment["spec"]["replicas"]
    return bool(
        replica_set["spec"]["replicas"] == total
        and annotations_of(replica_set).get(rollout.DESIRED) == str(total)
        and rollout.counted([replica_set], "availableReplicas") == total
    )


# math.MaxInt32 turns the deadline off (HasProgressDeadline).
NO_DEADLINE = 2**31 - 1

NEW_CREATED = "NewReplicaSetCreated"
NEW_FOUND = "FoundNewReplicaSet"
NEW_AVAILABLE = "NewReplicaSetAvailable"
UPDATED = "ReplicaSetUpdated"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Manifest:
    """Return a condition of a Deployment that begins now."""
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(conditions: Sequence[Manifest], new: Manifest) -> list[Manifest]:
    """
    Return the conditions with ``new`` at the end, in place of the one of its type.

    One of the same status and reason stays as and where it is; one of the same status keeps its transition time.
    """
    known = next((existing for existing in conditions if existing["type"] == new["type"]), None)
    if known is not None and (known["status"], known["reason"]) == (new["status"], new["reason"]):
        return list(conditions)
    if known is not None and known["status"] == new["status"]:
        new = {**new, "lastTransitionTime": known["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def without(conditions: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Return the conditions but the one of a type."""
    return [existing for existing in conditions if existing["type"] != kind]


def has_deadline(deployment: Manifest) -> bool:
    """Return whether the progress of the Deployment is watched."""
    return bool(deployment["spec"].get("progressDeadlineSeconds", NO_DEADLINE) != NO_DEADLINE)


def counts(deployment: Manifest, old: Sequence[Manifest], new: Manifest | None, now: str) -> Manifest:
    """Return the status with present counts and Available; the other conditions are those of before."""
    replica_sets = [*old, new] if new else list(old)
    available = rollout.counted(replica_sets, "availableReplicas")
    status = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": rollout.counted(replica_sets, "replicas"),
        "updatedReplicas": rollout.counted([new] if new else [], "replicas"),
        "readyReplicas": rollout.counted(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, rollout.wanted(replica_sets) - available),
        "collisionCount": at(deployment, "status", "collisionCount"),
    }
    enough = available >= deployment["spec"]["replicas"] - rollout.max_unavailable(deployment)
    minimum = (
        condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
        if enough
        else condition(
            "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
        )
    )
    return {
        **without_empty(status),
        # Present with 0, unlike the other counts: the real type has a pointer here.
        "terminatingReplicas": rollout.counted(replica_sets, "terminatingReplicas"),
        "conditions": with_condition(at(deployment, "status", "conditions") or (), minimum),
    }


def is_complete(deployment: Manifest, status: Manifest) -> bool:
    """Return whether all pods are new and available, and no old one is left."""
    total = deployment["spec"]["replicas"]
    numbers = (status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas"))
    return all(number == total for number in numbers) and (
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    )


def progress(deployment: Manifest, status: Manifest, new: Manifest | None, now: float, text: str) -> Manifest:
    """Return the status with Progressing as a rollout sees it; ``now`` and ``text`` are the same moment."""
    conditions: list[Manifest] = status["conditions"]
    if not has_deadline(deployment):
        return {**status, "conditions": without(conditions, "Progressing")}
    current = condition_of(deployment, "Progressing")
    rolled_out = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    # Pods that fail after a complete rollout are not progress to watch.
    if rolled_out and current.get("reason") == NEW_AVAILABLE:
        return status
    subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    if is_complete(deployment, status):
        done = condition("Progressing", "True", NEW_AVAILABLE, f"{subject} has successfully progressed.", text)
        return {**status, "conditions": with_condition(conditions, done)}
    if _has_moved(deployment.get("status") or {}, status):
        moving = condition("Progressing", "True", UPDATED, f"{subject} is progressing.", text)
        # A condition that stays True keeps its transition time; only the update time moves.
        if current.get("status") == "True":
            moving["lastTransitionTime"] = current["lastTransitionTime"]
        return {**status, "conditions": [*without(conditions, "Progressing"), moving]}
    deadline = deadline_in(deployment, now)
    if deadline is not None and deadline <= 0:
        late = condition("Progressing", "False", TIMED_OUT, f"{subject} has timed out progressing.", text)
        return {**status, "conditions": with_condition(conditions, late)}
    return status


def _has_moved(old_status: Manifest, new_status: Manifest) -> bool:
    def old_pods(status: Manifest) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_pods(new_status) < old_pods(old_status) or any(
        new_status.get(name, 0) > old_status.get(name, 0) for name in grown
    )


def deadline_in(deployment: Manifest, now: float) -> float | None:
    """Return the seconds until progress is overdue, None when nothing is awaited."""
    current = condition_of(deployment, "Progressing")
    if not has_deadline(deployment) or current.get("reason") in (None, NEW_AVAILABLE, TIMED_OUT, PAUSED):
        return None
    return seconds_of(current["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"]) - now


def failure(status: Manifest, old: Sequence[Manifest], new: Manifest | None) -> Manifest:
    """Return the status with the ReplicaFailure of the ReplicaSets, the new one first, or without one."""
    failures = [condition_of(replica_set, "ReplicaFailure") for replica_set in ([new] if new else []) + list(old)]
    failed = next((replica_set for replica_set in failures if replica_set), None)
    conditions: list[Manifest] = status["conditions"]
    if failed is None:
        return {**status, "conditions": without(conditions, "ReplicaFailure")}
    raised = condition(
        "ReplicaFailure", failed["status"], failed["reason"], failed["message"], failed["lastTransitionTime"]
    )
    return {**status, "conditions": with_condition(conditions, raised)}
