"""The Pod template of an Agent."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.containers import agent_container, first_containers, sidecars
from gitsync.agents.expansion.election import mounts_token, service_account_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.metadata import compact, labels_for
from gitsync.agents.expansion.volumes import pod_volumes
from gitsync.agents.keys import AGENT_LABEL, REFERENCES_ANNOTATION, RESTARTED_AT
from gitsync.agents.model.agent import Agent
from gitsync.objects.manifest import Manifest

_KILL_DELAY = 10
"""Seconds between the end of a drain and the end of the Pod."""
_TOPOLOGY = {"Host": "kubernetes.io/hostname", "Zone": "topology.kubernetes.io/zone"}


def pod_template(agent: Agent, facts: Facts, config: str) -> Manifest:
    """Return the template of Pods with the configuration of this name; its revision and track are added later."""
    marks = {REFERENCES_ANNOTATION: facts.references, RESTARTED_AT: facts.restarted_at}
    return {
        "metadata": compact({"labels": labels_for(agent), "annotations": compact(marks)}),
        "spec": _spec(agent, facts, config),
    }


def _spec(agent: Agent, facts: Facts, config: str) -> dict[str, Any]:
    runtime = agent.spec.runtime
    beside = [] if facts.has_native_sidecars else sidecars(agent, facts)
    return {
        **compact(
            {
                "serviceAccountName": service_account_name(agent),
                "imagePullSecrets": [{"name": secret.name} for secret in runtime.image_pull_secrets],
                "runtimeClassName": runtime.runtime_class_name,
                "priorityClassName": runtime.priority_class_name,
                "nodeSelector": dict(runtime.node_selector),
                "tolerations": [
                    one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in runtime.tolerations
                ],
                "topologySpreadConstraints": _spread(agent),
                "terminationGracePeriodSeconds": _grace(agent),
                "securityContext": _security(agent),
                "initContainers": first_containers(agent, facts),
                "containers": [agent_container(agent, facts), *beside],
                "volumes": pod_volumes(agent, facts, config),
            }
        ),
        "automountServiceAccountToken": mounts_token(agent),
    }


def _spread(agent: Agent) -> list[dict[str, Any]]:
    key = _TOPOLOGY.get(agent.spec.runtime.topology_spread)
    if key is None:
        return []
    selector = {"matchLabels": {AGENT_LABEL: agent.name}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]


def _grace(agent: Agent) -> int | None:
    drain = agent.spec.lifecycle.drain if agent.spec.lifecycle else None
    return drain.timeout_seconds + _KILL_DELAY if drain else None


def _security(agent: Agent) -> dict[str, Any] | None:
    profile = agent.spec.runtime.security_context.profile
    if profile == "Privileged":
        return None
    restricted = {"runAsNonRoot": True} if profile == "Restricted" else {}
    return {**restricted, "seccompProfile": {"type": "RuntimeDefault"}}
