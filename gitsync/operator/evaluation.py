"""Read the verdict of an evaluation from the Pod of its Job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitsync.agents.expansion.checks import EVALUATION
from gitsync.agents.model.agent import Agent
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.ports import Ports

_FIRST_LIST = 5.0


class EvaluationReader:
    """Read verdicts; Pods are followed only in namespaces with an Agent that has an evaluation."""

    def __init__(self, ports: Ports) -> None:
        self._cluster, self._live = ports.cluster, ports.live

    def verdict(self, agent: Agent, job: Manifest | None) -> Mapping[str, Any] | None:
        """Return the verdict of the newest Pod of the Job, empty where it has none, None while no Pod has ended."""
        pods = self._cluster.resource("", "v1", "Pod")
        if agent.spec.evaluation is None or job is None or pods is None:
            return {}
        self._live.follow([(pods, agent.namespace)], _FIRST_LIST)
        found = [one for one in self._live.dependents(uid_of(job)) if one.get("kind") == "Pod"]
        found.sort(key=lambda one: str(metadata_of(one).get("creationTimestamp", "")))
        if not any(at(one, "status", "phase") in ("Succeeded", "Failed") for one in found):
            return None
        return next(filter(None, map(_message, reversed(found))), {})


def _message(pod: Manifest) -> dict[str, Any]:
    """Return what the evaluation wrote as its termination message."""
    for status in at(pod, "status", "containerStatuses") or ():
        text = at(status, "state", "terminated", "message") if status.get("name") == EVALUATION else None
        if isinstance(text, str):
            try:
                found = json.loads(text)
            except json.JSONDecodeError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}
