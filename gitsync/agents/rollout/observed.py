"""What a rollout observes of workloads and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from gitsync.agents.keys import REVISION_LABEL
from gitsync.agents.rollout.state import Track
from gitsync.objects.manifest import Manifest, at, metadata_of


class CheckResult(Enum):
    """How the checks of a revision ended; the value is what the status says."""

    NONE = ""
    RUNNING = "Running"
    PASSED = "Passed"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"


@dataclass(frozen=True, slots=True)
class Workload:
    """
    A live workload: the revision of its template, wanted and ready replicas, and those of that revision.

    ``is_complete``: all replicas have that revision and are ready.
    """

    revision: str
    wanted: int = 0
    replicas: int = 0
    ready: int = 0
    updated: int = 0
    is_complete: bool = False
    problem: str = ""
    """Why its controller gave it up."""
    crash: str = ""
    """Why its Pods cannot do their work, as of now."""


@dataclass(frozen=True, slots=True)
class Route:
    """
    The live HTTPRoute: the percentage of the canary, and why the newest weights do not hold, empty where they do.

    ``changed_at`` is when the operator last changed it, None where that is not known.
    """

    canary_weight: int = 0
    problem: str = ""
    is_served: bool = True
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """
    What the queries of a canary report.

    ``exceeded`` is the limit that stops it. No step ends while a query ``is_pending``, or while one has no data:
    ``absent`` tells which and why, and ``is_held`` that the step waits for it without a deadline.
    """

    exceeded: str = ""
    absent: str = ""
    is_held: bool = False
    is_pending: bool = False

    @classmethod
    def of(cls, results: Sequence[AnalysisResult]) -> AnalysisResult:
        """Return the result of several queries."""
        without_data = [result for result in results if result.absent]
        # One with a deadline first: it ends the rollout whatever the others wait for.
        first = min(without_data, key=lambda result: result.is_held, default=cls())
        return cls(
            # The first limit that is exceeded is enough to give the canary up.
            exceeded=next((result.exceeded for result in results if result.exceeded), ""),
            absent=first.absent,
            is_held=first.is_held,
            is_pending=any(result.is_pending for result in results),
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """
    What was observed: ``target`` is the revision of the spec, ``wanted`` the number of replicas that serve.

    ``promote`` and ``abort`` are the revisions that a user named; ``retry`` is one with the time, as ``REVISION@TIME``.
    """

    target: str
    wanted: int
    now: datetime
    is_autoscaled: bool = False
    is_stateful: bool = False
    workloads: Mapping[Track, Workload] = field(default_factory=dict)
    route: Route = field(default_factory=Route)
    checks: CheckResult = CheckResult.NONE
    checks_message: str = ""
    has_new_checks: bool = False
    """The revision of the spec has a verdict, and that is of other checks than those of today."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """The verdict on the revision of the spec, as the status says it; empty while there is none."""
    analysis: AnalysisResult = field(default_factory=AnalysisResult)
    promote: str = ""
    abort: str = ""
    retry: str = ""
    held: str = ""
    """Why no new revision is begun until something changes, such as drift of the contract."""
    pending: str = ""
    """What a new revision waits for before it is begun."""


def workload_of(live: Manifest, agent: str, crash: str = "") -> Workload:
    """Return what a live Deployment or StatefulSet reports; ``crash`` is what is wrong with its Pods."""
    status = live.get("status") or {}
    # Absent replicas are 1 by the default of the API server.
    wanted = int(at(live, "spec", "replicas", default=1))
    label = at(live, "spec", "template", "metadata", "labels", REVISION_LABEL, default="")
    # Before the controller has seen the newest template, its counts are of the older one.
    is_observed = int(status.get("observedGeneration", 0)) >= int(metadata_of(live).get("generation", 0))
    replicas = int(status.get("replicas", 0))
    ready = int(status.get("readyReplicas", 0))
    updated = int(status.get("updatedReplicas", 0))
    # StatefulSets report availableReplicas only with minReadySeconds in older versions of Kubernetes.
    available = int(status.get("availableReplicas", ready))
    return Workload(
        revision=f"{agent}-{label}",
        wanted=wanted,
        replicas=replicas,
        ready=ready,
        updated=updated if is_observed else 0,
        # replicas too: old Pods that are still there may serve the revision before.
        is_complete=is_observed and updated == replicas == wanted and min(ready, available) >= wanted,
        problem=_problem(live) if is_observed else "",
        crash=crash,
    )


def _problem(live: Manifest) -> str:
    for condition in at(live, "status", "conditions", default=[]):
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return str(condition.get("message") or "the progress deadline was exceeded")
    return ""
