"""
The Jobs that check an Agent: a new revision before it gets requests, and what serves beside rollouts.

Beside rollouts, one compares the contract with its lock, and one asks the cases again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.pods import resources, security
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.keys import (
    CHECK_LABEL,
    CHECKS,
    CONFIG_PATH,
    CONFIG_VOLUME,
    CONTRACT_LABEL,
    RETRY,
    REVISION_LABEL,
    child,
    compact,
    service_url,
)
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.evaluation import ContractPolicy, Evaluation
from gitsync.agents.model.runtime import Check
from gitsync.objects.manifest import Manifest, content_hash

EVALUATION: Final = "evaluation"
"""The container and the volume of an evaluation."""
_JUDGE_KEY = "GITSYNC_JUDGE_KEY"
_CASES_PATH = "/etc/agent/evaluation"
_CASES_FILE = "cases.jsonl"
# curl's own --fail accepts every status below 400; a check names the one that it expects.
_REQUEST = (
    'code=$(curl --silent --show-error --output /dev/stderr --write-out "%{http_code}" --max-time "$TIMEOUT"'
    ' --request "$METHOD" "$URL"); [ "$code" = "$EXPECTED" ] || { echo "$METHOD $URL answered $code" >&2; exit 1; }'
)


_REQUEST_RESOURCES = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
"""Of a check that is one request by curl; without resources a compute quota does not admit its Pod."""


def validation_name(revision: Revision, agent: Agent) -> str:
    """Return the name of the Job that checks a revision."""
    return f"{agent.name}-validate-{revision.hash}"


def checks_hash(agent: Agent, revision: Revision, facts: Facts, attempt: int = 0) -> str:
    """
    Return the hash of what a revision is checked by.

    There is one verdict for each revision and hash; a user who wants another one changes the hash by a request.
    """
    lifecycle = agent.spec.lifecycle
    checks = (
        [check.model_dump(mode="json", exclude_defaults=True) for check in lifecycle.validate_] if lifecycle else []
    )
    evaluation = agent.spec.evaluation
    # Another schedule is another time for the cases, not another check.
    settings = evaluation.model_dump(mode="json", exclude_defaults=True, exclude={"schedule"}) if evaluation else None
    # A request is for one revision: the verdicts of the others stay.
    retry = agent.annotations.get(RETRY, "")
    is_requested = retry.partition("@")[0] == revision.name
    return content_hash([checks, settings, facts.cases, retry if is_requested else "", attempt])[:10]


def validation_job(sharing: Sharing, revision: Revision, facts: Facts, attempt: int = 0) -> list[Manifest]:
    """Return the Job that runs the checks of the spec against the preview of a revision."""
    agent = sharing.target
    lifecycle = agent.spec.lifecycle
    evaluation = agent.spec.evaluation
    checks = lifecycle.validate_ if lifecycle else ()
    if not checks and evaluation is None:
        return []
    labels = {CHECK_LABEL: agent.name, REVISION_LABEL: revision.hash}
    pod = {
        # A restarted container would lose the message of the first one; retries are of the Job.
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": revision.template["spec"].get("securityContext"),
        "containers": [
            *(_container(agent, check, revision, facts) for check in checks),
            *([_evaluation(sharing, evaluation)] if evaluation else []),
        ],
        "volumes": [
            # A claim of one node would make the check wait for the disk of the serving Pod.
            *(volume for volume in revision.template["spec"]["volumes"] if "persistentVolumeClaim" not in volume),
            *([evaluation_volume(evaluation)] if evaluation else []),
        ],
    }
    spec = {
        # The Job has one count for all of its containers, so that the most patient check decides.
        "backoffLimit": max((check.retries for check in checks), default=0),
        "activeDeadlineSeconds": max((_seconds(check) for check in checks), default=0)
        + (evaluation.limits.seconds if evaluation else 0)
        # A minute for images to be pulled.
        + 60,
        "template": {
            # On the template, which cannot be changed: other checks or cases are another Job.
            "metadata": {"labels": labels, "annotations": {CHECKS: checks_hash(agent, revision, facts, attempt)}},
            "spec": compact(pod) | {"automountServiceAccountToken": False},
        },
    }
    job = child(agent, "batch/v1", "Job", validation_name(revision, agent), spec=spec)
    job["metadata"]["labels"][REVISION_LABEL] = revision.hash
    return [job]


def _seconds(check: Check) -> int:
    """Return the seconds that a check and its retries may take."""
    return check.timeout_seconds * (check.retries + 1)


def evaluation_volume(evaluation: Evaluation) -> dict[str, Any]:
    """Return the volume with the cases."""
    items = [{"key": evaluation.cases.key, "path": _CASES_FILE}]
    return {"name": EVALUATION, "configMap": {"name": evaluation.cases.name, "items": items}}


def _evaluation(sharing: Sharing, evaluation: Evaluation) -> dict[str, Any]:
    """Return the container that sends the cases to the preview and to the revision that serves."""
    agent = sharing.target
    preview = service_url(f"{agent.name}-preview", agent.namespace, agent.spec.runtime.port, "/")
    serving = service_url(agent.name, agent.namespace, sharing.serving.spec.runtime.port, "/")
    return evaluation_container(evaluation, ("--url", preview, "--serving", serving), security(agent))


def evaluation_container(
    evaluation: Evaluation, targets: tuple[str, ...], context: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the container that sends the cases to the agents that these options name, with a security context."""
    # Without cases, image and resources, which the container has by itself.
    # Without defaults: the image of the evaluation may be an older gitsync, which does not know newer settings.
    excluded = {"cases", "image", "resources", "schedule"}
    settings = evaluation.model_dump(mode="json", by_alias=True, exclude=excluded, exclude_defaults=True)
    command = ["gitsync", "eval", "--cases", f"{_CASES_PATH}/{_CASES_FILE}", *targets]
    # Sorted: the Job is immutable, and an equal spec has to give an equal command.
    command += ["--settings", json.dumps(settings, sort_keys=True), "--summary", "/dev/termination-log"]
    return compact(
        {
            "name": EVALUATION,
            "image": evaluation.image,
            "command": command,
            "env": _judge_key(evaluation),
            "resources": resources(evaluation.resources),
            "securityContext": context,
            "volumeMounts": [{"name": EVALUATION, "mountPath": _CASES_PATH, "readOnly": True}],
        }
    )


def _judge_key(evaluation: Evaluation) -> list[dict[str, Any]]:
    credentials = evaluation.judge.credentials if evaluation.judge else None
    if credentials is None:
        return []
    source = credentials.secret_key_ref
    return [{"name": _JUDGE_KEY, "valueFrom": {"secretKeyRef": {"name": source.name, "key": source.key}}}]


def _container(agent: Agent, check: Check, revision: Revision, facts: Facts) -> dict[str, Any]:
    url = service_url(f"{agent.name}-preview", agent.namespace, agent.spec.runtime.port)
    if check.http is not None:
        variables = {
            "URL": f"{url}{check.http.path}",
            "METHOD": check.http.method,
            "EXPECTED": str(check.http.expect_status),
            "TIMEOUT": str(check.timeout_seconds),
        }
        env = [{"name": name, "value": value} for name, value in variables.items()]
        image = facts.images.http
        command = ["sh", "-c", _REQUEST]
        mounts = []
        limits = _REQUEST_RESOURCES
    else:
        own = revision.template["spec"]["containers"][0]
        env = [*own.get("env", []), {"name": "AGENT_URL", "value": url}]
        image = own["image"]
        command = list(check.exec.command) if check.exec else []
        kept = {
            volume["name"] for volume in revision.template["spec"]["volumes"] if "persistentVolumeClaim" not in volume
        }
        mounts = [mount for mount in own.get("volumeMounts", []) if mount["name"] in kept]
        limits = own.get("resources")
    return compact(
        {
            "name": check.name,
            "image": image,
            "command": command,
            "env": env,
            "resources": limits,
            "securityContext": security(agent),
            "volumeMounts": mounts,
        }
    )


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
    container = evaluation_container(evaluation, ("--url", url), security(agent))
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
