"""The Job that checks a new revision."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.containers import security
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.metadata import child, compact, service_url
from gitsync.agents.expansion.revisions import Revision
from gitsync.agents.keys import CHECK_LABEL, REVISION_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.lifecycle import Check
from gitsync.objects.manifest import Manifest

_REQUEST = (
    'code=$(curl --silent --show-error --output /dev/stderr --write-out "%{http_code}" --max-time "$TIMEOUT"'
    ' --request "$METHOD" "$URL"); [ "$code" = "$EXPECTED" ] || { echo "$METHOD $URL answered $code" >&2; exit 1; }'
)


def validation_name(revision: Revision, agent: Agent) -> str:
    """Return the name of the Job that checks a revision."""
    return f"{agent.name}-validate-{revision.hash}"


def validation_job(agent: Agent, revision: Revision, facts: Facts) -> list[Manifest]:
    """Return the Job that runs the checks of the spec against the preview of a revision."""
    lifecycle = agent.spec.lifecycle
    if lifecycle is None or not lifecycle.validate_:
        return []
    checks = lifecycle.validate_
    labels = {CHECK_LABEL: agent.name, REVISION_LABEL: revision.hash}
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": revision.template["spec"].get("securityContext"),
        "containers": [_container(agent, check, revision, facts) for check in checks],
        "volumes": [volume for volume in revision.template["spec"]["volumes"] if "persistentVolumeClaim" not in volume],
    }
    spec = {
        "backoffLimit": max(check.retries for check in checks),
        "activeDeadlineSeconds": max(check.timeout_seconds * (check.retries + 1) for check in checks) + 60,
        "template": {"metadata": {"labels": labels}, "spec": compact(pod) | {"automountServiceAccountToken": False}},
    }
    job = child(agent, "batch/v1", "Job", validation_name(revision, agent), spec=spec)
    job["metadata"]["labels"][REVISION_LABEL] = revision.hash
    return [job]


def _container(agent: Agent, check: Check, revision: Revision, facts: Facts) -> dict[str, Any]:
    url = service_url(f"{agent.name}-preview", agent.namespace, agent.spec.runtime.port)
    if check.http is not None:
        given = {
            "URL": f"{url}{check.http.path}",
            "METHOD": check.http.method,
            "EXPECTED": str(check.http.expect_status),
            "TIMEOUT": str(check.timeout_seconds),
        }
        env = [{"name": name, "value": value} for name, value in given.items()]
        image, command, mounts = facts.images.http, ["sh", "-c", _REQUEST], []
    else:
        own = revision.template["spec"]["containers"][0]
        env = [*own.get("env", []), {"name": "AGENT_URL", "value": url}]
        image, command = own["image"], list(check.exec.command) if check.exec else []
        kept = {one["name"] for one in revision.template["spec"]["volumes"] if "persistentVolumeClaim" not in one}
        mounts = [mount for mount in own.get("volumeMounts", []) if mount["name"] in kept]
    return compact(
        {
            "name": check.name,
            "image": image,
            "command": command,
            "env": env,
            "securityContext": security(agent),
            "volumeMounts": mounts,
        }
    )
