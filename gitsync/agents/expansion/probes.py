"""Jobs that ask beside rollouts: the comparison of a contract with its lock, and the cases for what serves."""

from __future__ import annotations

from typing import Any, Final

from gitsync.agents.expansion.checks import evaluation_container, evaluation_volume
from gitsync.agents.expansion.pods import resources, security
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.keys import CHECK_LABEL, CONFIG_PATH, CONFIG_VOLUME, CONTRACT_LABEL, child, compact, service_url
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.contract import ContractPolicy
from gitsync.objects.manifest import Manifest

CONTRACT: Final = "contract"
"""The container and the volume of a comparison."""
_LOCK_PATH: Final = "/etc/agent/contract"
_LOCK_FILE: Final = "contracts.lock"
_NEEDED: Final = ("AGENT_MODEL_", "TOOL_")
"""How names of variables begin that a comparison needs; it gets no passwords of databases."""
_PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"})
_START_SECONDS: Final = 60
"""Seconds for the image to be pulled."""


def contract_job(agent: Agent, policy: ContractPolicy, revision: Revision, id: str) -> Manifest:
    """Return the Job that compares what a revision depends on with the lock, with its keys and headers."""
    own = revision.template["spec"]["containers"][0]
    container = {
        "name": CONTRACT,
        "image": policy.image,
        "command": [
            *("gitsync", "agent", "lock", ".", f"{agent.namespace}/{agent.name}", "--check"),
            *("--config", f"{CONFIG_PATH}/agent.json", "--file", f"{_LOCK_PATH}/{_LOCK_FILE}"),
            *("--summary", "/dev/termination-log"),
        ],
        "env": [variable for variable in own.get("env", []) if _is_needed(variable["name"])],
        "resources": resources(policy.resources),
        "securityContext": security(agent),
        "volumeMounts": [
            {"name": CONFIG_VOLUME, "mountPath": CONFIG_PATH, "readOnly": True},
            {"name": CONTRACT, "mountPath": _LOCK_PATH, "readOnly": True},
        ],
    }
    items = [{"key": policy.lock.key, "path": _LOCK_FILE}]
    config = [volume for volume in revision.template["spec"]["volumes"] if volume["name"] == CONFIG_VOLUME]
    volumes = [*config, {"name": CONTRACT, "configMap": {"name": policy.lock.name, "items": items}}]
    seconds = policy.timeout_seconds + _START_SECONDS
    return _job(agent, revision, f"{agent.name}-contract-{id}", id, (compact(container), volumes, seconds))


def behaviour_job(agent: Agent, revision: Revision, id: str) -> Manifest | None:
    """Return the Job that asks the cases of the revision that serves, None for an Agent without an evaluation."""
    evaluation = agent.spec.evaluation
    if evaluation is None:
        return None
    url = service_url(agent.name, agent.namespace, agent.spec.runtime.port, "/")
    container = evaluation_container(agent, evaluation, ("--url", url))
    seconds = evaluation.limits.seconds + _START_SECONDS
    work = (container, [evaluation_volume(evaluation)], seconds)
    return _job(agent, revision, f"{agent.name}-behaviour-{id}", id, work)


def _job(
    agent: Agent, revision: Revision, name: str, id: str, work: tuple[dict[str, Any], list[dict[str, Any]], int]
) -> Manifest:
    """Return a Job of one container, its volumes and its seconds."""
    container, volumes, seconds = work
    template = revision.template["spec"]
    pod = {
        **compact({member: template.get(member) for member in ("imagePullSecrets", "securityContext")}),
        # A restarted container would lose the message of the first one.
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": volumes,
    }
    labels = {CHECK_LABEL: agent.name}
    # No retry: a comparison without a result is begun again later, as another Job.
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": seconds,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    job = child(agent, "batch/v1", "Job", name, spec=spec)
    job["metadata"]["labels"][CONTRACT_LABEL] = id
    return job


def _is_needed(variable: str) -> bool:
    return variable.startswith(_NEEDED) or variable in _PROXIES
