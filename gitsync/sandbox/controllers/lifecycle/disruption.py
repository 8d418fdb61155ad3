"""PodDisruptionBudget controller: count how many pods may be evicted now."""

from __future__ import annotations

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.object_meta import Key, condition_of, controller_ref, is_deleting, key_of
from gitsync.sandbox.controllers.workloads.rollout import resolve

_SCALABLE = {"ReplicaSet": "apps", "StatefulSet": "apps"}


class DisruptionBudgets(SandboxController):
    """Count the pods that a budget selects, and those it can spare."""

    name = "disruption"
    watches = frozenset({("policy", "PodDisruptionBudget"), ("", "Pod")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the budget, or those that select the pod."""
        if obj["kind"] == "PodDisruptionBudget":
            self.enqueue(key_of(obj))
            return
        if old is not None and event != "DELETED" and _health(obj) == _health(old):
            return
        for budget in self.api.list("policy", "PodDisruptionBudget", obj["metadata"]["namespace"]):
            if matches(budget["spec"].get("selector"), labels_of(obj)):
                self.enqueue(key_of(budget))

    def reconcile(self, key: Key) -> None:
        """Write the status of one budget."""
        budget = self.api.get("policy", "PodDisruptionBudget", *key)
        if budget is None or is_deleting(budget):
            return
        selector = budget["spec"].get("selector")
        selected = [
            pod for pod in self.api.list("", "Pod", key[0]) if matches(selector, labels_of(pod)) and pods.is_active(pod)
        ]
        # A number needs no total, so the controllers of the pods are not asked.
        by_number = isinstance(budget["spec"].get("minAvailable"), int)
        expected = len(selected) if by_number else self._expected(selected)
        healthy = sum(pods.is_ready(pod) for pod in selected)
        desired = _desired(budget["spec"], expected)
        # Without expected pods the real controller allows none, too.
        spare = max(0, healthy - desired) if expected else 0
        self.write_status(
            budget,
            {
                "observedGeneration": budget["metadata"].get("generation", 1),
                "disruptionsAllowed": spare,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": [self._condition(budget, spare)],
            },
        )

    def _expected(self, selected: list[Manifest]) -> int:
        """Return how many pods the controllers of the selected ones want, uncontrolled ones counted themselves."""
        owners: dict[str, int] = {}
        alone = 0
        for pod in selected:
            reference = controller_ref(pod)
            group = _SCALABLE.get((reference or {}).get("kind", ""))
            if reference is None or group is None:
                alone += 1
                continue
            owner = self.api.get(group, reference["kind"], pod["metadata"]["namespace"], reference["name"])
            # Once for each controller, however many of its pods are selected.
            owners[reference["uid"]] = at(owner, "spec", "replicas") or 0
        return alone + sum(owners.values())

    def _condition(self, budget: Manifest, spare: int) -> Manifest:
        holds = "True" if spare else "False"
        known = condition_of(budget, "DisruptionAllowed")
        return {
            "type": "DisruptionAllowed",
            "status": holds,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "lastTransitionTime": known["lastTransitionTime"] if known.get("status") == holds else self.context.now(),
            "reason": "SufficientPods" if spare else "InsufficientPods",
            "message": "",
        }


def _health(pod: Manifest) -> tuple[bool, bool, bool, dict[str, str]]:
    return pods.is_ready(pod), pods.is_finished(pod), is_deleting(pod), labels_of(pod)


def _desired(spec: Manifest, expected: int) -> int:
    """Return how many pods have to stay healthy."""
    if "maxUnavailable" in spec:
        return max(0, expected - resolve(spec["maxUnavailable"], expected, round_up=True))
    minimum = spec.get("minAvailable", 1)
    # Rounded up: a budget of 50 % of 3 pods keeps 2.
    return minimum if isinstance(minimum, int) else resolve(minimum, expected, round_up=True)
