"""ReplicaSets: as many pods of one template as wanted."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController, adopt, adopters
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    condition_of,
    controlled,
    controller_key,
    is_deleting,
    key_of,
    without_empty,
)
from gitsync.sandbox.errors import ApiError

_SOURCE = EventSource("replicaset-controller")
# pkg/controller/replicaset: BurstReplicas.
_BURST = 500


class ReplicaSets(SandboxController):
    """Create and delete the pods of a ReplicaSet, adopt what it selects, and count."""

    name = "replicaset"
    watches = frozenset({("apps", "ReplicaSet"), ("", "Pod")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the ReplicaSet, or the one that controls the pod."""
        if obj["kind"] == "ReplicaSet":
            self.enqueue(key_of(obj))
            return
        # A pod that was released still concerns its former controller.
        for pod in (obj, old or obj):
            key = controller_key(pod, "ReplicaSet")
            if key:
                self.enqueue(key)
        for key in adopters(self.api, obj, "apps", "ReplicaSet"):
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        """Create or delete pods towards ``spec.replicas``, then write the counts seen before that."""
        replica_set = self.api.get("apps", "ReplicaSet", *key)
        if replica_set is None:
            return
        adopt(self.api, self.context.strays, replica_set, "", "Pod")
        owned = controlled(self.api, replica_set, "Pod")
        failure = None if is_deleting(replica_set) else self._scale(replica_set, owned)
        self._write(replica_set, owned, failure)
        if failure is not None:
            raise failure[1]

    def _scale(self, replica_set: Manifest, owned: list[Manifest]) -> tuple[str, ApiError] | None:
        active = [pod for pod in owned if pods.is_active(pod)]
        missing = replica_set["spec"]["replicas"] - len(active)
        try:
            if missing > 0:
                for _ in range(min(missing, _BURST)):
                    self._create(replica_set)
            elif missing < 0:
                for pod in sorted(active, key=pods.deletion_rank)[:-missing]:
                    self._delete(replica_set, pod)
        except ApiError as error:
            return ("FailedCreate" if missing > 0 else "FailedDelete"), error
        return None

    def _create(self, replica_set: Manifest) -> None:
        try:
            pod = self.api.create(pods.from_template(replica_set["spec"]["template"], replica_set), manager=MANAGER)
        except ApiError as error:
            self.context.recorder.warning(replica_set, "FailedCreate", f"Error creating: {error.message}", _SOURCE)
            raise
        self.context.recorder.normal(
            replica_set, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", _SOURCE
        )

    def _delete(self, replica_set: Manifest, pod: Manifest) -> None:
        meta = pod["metadata"]
        self.api.delete(ObjectRef("", "Pod", meta["namespace"], meta["name"]), uid=meta["uid"])
        self.context.recorder.normal(replica_set, "SuccessfulDelete", f"Deleted pod: {meta['name']}", _SOURCE)

    def _write(self, replica_set: Manifest, owned: list[Manifest], failure: tuple[str, ApiError] | None) -> None:
        spec = replica_set["spec"]
        active = [pod for pod in owned if pods.is_active(pod)]
        min_ready = spec.get("minReadySeconds") or 0
        now = self.context.timers.now()
        waits = [pods.available_in(pod, min_ready, now) for pod in active]
        template_labels = labels_of(spec["template"])
        counts = without_empty(
            {
                "fullyLabeledReplicas": sum(pods.has_labels(pod, template_labels) for pod in active),
                "readyReplicas": sum(wait is not None for wait in waits),
                "availableReplicas": sum(wait == 0 for wait in waits),
            }
        )
        # Counts from before this reconcile's writes, as the real controller reports them.
        status = {
            "replicas": len(active),
            **counts,
            "terminatingReplicas": sum(pods.is_terminating(pod) for pod in owned),
            "observedGeneration": replica_set["metadata"]["generation"],
        }
        if failure is not None:
            status["conditions"] = [self._failure(replica_set, *failure)]
        self.write_status(replica_set, status)
        later = [wait for wait in waits if wait]
        if later:
            self.enqueue_after(key_of(replica_set), min(later))

    def _failure(self, replica_set: Manifest, reason: str, error: ApiError) -> Manifest:
        known = condition_of(replica_set, "ReplicaFailure")
        if known.get("reason") == reason:
            return known
        return {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": self.context.now(),
            "reason": reason,
            "message": error.message,
        }
