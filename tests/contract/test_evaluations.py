"""
Copies that answer their cases before a change is applied, on the sandbox and on a real control plane.

The controller has the shipped rights, and the Application those of a tenant's account: no others make the copies. The
sandbox runs agent and evaluation as processes; a control plane alone has none, and the test ends the Pods of the copies
with the verdict.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.objects.keys import EVALUATION_LABEL
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from tests.contract.agent_stage import end_pods, jobs, pods
from tests.contract.installed import install, kubeconfig_of
from tests.contract.manifests import config_map, manifest
from tests.contract.stage import Stage, eventually
from tests.waiting import until_quiet

SOURCE = {"PYTHONPATH": str(Path(__file__).parents[2])}
IMAGES = {
    "registry.example.com/triage": Image(("python", "-m", "tests.flow.stub_agent"), env=SOURCE),
    "registry.example.com/gitsync": Image(("gitsync",), env=SOURCE),
}
CASE = '{"name": "manners", "input": "hello", "assert": [{"contains": "polite"}]}'
SETTINGS = """
http: {path: /ask, body: {question: $input}, answer: /answer}
timeoutSeconds: 5
image: registry.example.com/gitsync:TAG
"""

pytestmark = [
    pytest.mark.own_rights,
    pytest.mark.images(IMAGES),
    pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8"),
]


def workload(kind: str) -> Manifest:
    """Return an agent of this kind that reads its prompt from a ConfigMap, and a Secret of the same commit."""
    container = {
        "name": "agent",
        "image": "registry.example.com/triage:1",
        "env": [{"name": "PROMPT_FILE", "value": "/etc/triage/system.md"}],
        "envFrom": [{"secretRef": {"name": "key"}}],
        "volumeMounts": [{"name": "prompt", "mountPath": "/etc/triage"}],
    }
    volumes = [{"name": "prompt", "configMap": {"name": "prompt"}}]
    spec: dict[str, Any] = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "triage"}},
        "template": {
            "metadata": {"labels": {"app": "triage"}},
            "spec": {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1},
        },
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "triage"
    made = manifest("apps/v1", kind, "triage", spec=spec)
    made["metadata"]["annotations"] = {"gitsync.dev/evaluation": "cases"}
    return made


def prompt(text: str) -> Manifest:
    return config_map("prompt", **{"system.md": text})


def files(stage: Stage, kind: str) -> dict[str, Any]:
    # a kubelet without processes lets the Pods of an image of this tag run, so that only the test ends them
    settings = SETTINGS.replace("TAG", "forever" if stage.is_real else "1")
    cases = config_map("cases", **{"cases.jsonl": CASE, "evaluation.yaml": settings})
    service = manifest("v1", "Service", "triage", spec={"selector": {"app": "triage"}, "ports": [{"port": 8080}]})
    secret = manifest("v1", "Secret", "key", stringData={"MODEL_KEY": "k"})
    return {"agent.yaml": [workload(kind), service, secret, cases], "prompt.yaml": prompt("be polite")}


def limited(stage: Stage) -> None:
    """Give the controller the shipped rights, and Applications those of a tenant's account in their namespace."""
    install(stage, "read-secrets")
    stage.account = "gitsync-deployer"
    stage.controller_kubeconfig = kubeconfig_of(stage, "gitsync")


def declare(stage: Stage) -> None:
    stage.application(destination={"allowClusterScoped": False})
    stage.start()


def answer(stage: Stage, result: str) -> None:
    """End the Pod of each copy with this verdict, as a kubelet does; in the sandbox processes find it themselves."""
    message = "1 of 1 cases passed" if result == "Passed" else "0 of 1 cases passed; failed: manners"
    rows = [{"name": "manners", "now": result}]
    report = {"result": result, "passed": int(result == "Passed"), "cases": 1, "message": message, "results": rows}
    phase = "Succeeded" if result == "Passed" else "Failed"
    end_pods(stage, "triage-eval-", phase, exitCode=int(result != "Passed"), message=json.dumps(report))


def copies(stage: Stage) -> list[str]:
    """Return what evaluations made and is still there."""
    kinds = {"Job": "batch/v1", "Pod": "v1", "ConfigMap": "v1", "Secret": "v1"}
    return [
        f"{kind} {item['metadata']['name']}"
        for kind, api in kinds.items()
        for item in stage.client.get(stage.path(kind, "", api=api))["items"]
        if EVALUATION_LABEL in labels_of(item)
    ]


def passes(stage: Stage, commit: str) -> None:
    """Let each copy pass until the commit is applied, and its copies are gone."""

    def is_applied() -> bool:
        answer(stage, "Passed")
        return at(stage.status(), "revision", "applied") == commit and stage.status().get("phase") == "Synced"

    eventually(stage, is_applied)
    eventually(stage, lambda: not copies(stage))


def live_prompt(stage: Stage) -> str:
    return str(at(stage.live("ConfigMap", "prompt"), "data", "system.md"))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_changed_prompt_is_applied_after_its_copy_has_passed(stage: Stage, kind: str) -> None:
    limited(stage)
    first = stage.commit(files(stage, kind))
    declare(stage)
    passes(stage, first)
    serving = stage.live(kind, "triage", api="apps/v1")
    second = stage.commit({"prompt.yaml": prompt("be very polite")})
    eventually(stage, lambda: any(job.startswith("triage-eval-") for job in jobs(stage)))
    eventually(stage, lambda: any(EVALUATION_LABEL in labels_of(pod) for pod in pods(stage)))
    if stage.is_real:  # the processes of the sandbox may have answered by now
        assert live_prompt(stage) == "be polite"
        copied = [pod for pod in pods(stage) if EVALUATION_LABEL in labels_of(pod)]
        assert [at(pod, "metadata", "ownerReferences", 0, "kind") for pod in copied] == ["Job"]
        assert {text.partition(" ")[0] for text in copies(stage)} == {"Job", "Pod", "ConfigMap", "Secret"}
        assert [item for item in stage.status()["resources"] if "-eval-" in str(item)] == []
    passes(stage, second)
    assert live_prompt(stage) == "be very polite"
    assert stage.live(kind, "triage", api="apps/v1")["spec"] == serving["spec"]
    newest = stage.status()["evaluations"][-1]
    assert (newest["result"], newest["attempt"]) == ("Passed", 1)


def test_a_copy_that_fails_leaves_all_that_serves(stage: Stage) -> None:
    limited(stage)
    first = stage.commit(files(stage, "Deployment"))
    declare(stage)
    passes(stage, first)
    stage.commit({"prompt.yaml": prompt("be rude"), "other.yaml": config_map("other", a="1")})

    def is_failed() -> bool:
        answer(stage, "Failed")
        return "EvaluationFailed" in json.dumps(stage.status().get("conditions"))

    eventually(stage, is_failed)
    eventually(stage, lambda: not copies(stage))
    assert live_prompt(stage) == "be polite"
    assert stage.get("ConfigMap", "other") is not None
    attempts = until_quiet(lambda: [row["attempt"] for row in stage.status()["evaluations"]])
    assert attempts[-1] == 1
    stage.revert()
    eventually(stage, lambda: stage.status().get("phase") == "Synced")
    assert copies(stage) == []


def test_an_account_that_may_not_create_jobs_changes_nothing(stage: Stage) -> None:
    limited(stage)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "no-jobs", "namespace": stage.namespace},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps", "secrets", "services"], "verbs": ["*"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
        ],
    }
    first = stage.commit(files(stage, "Deployment"))
    declare(stage)
    passes(stage, first)
    stage.apply(role)
    stage.delete("RoleBinding", "gitsync-deployer", api="rbac.authorization.k8s.io/v1")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "gitsync-deployer", "namespace": stage.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "no-jobs"},
        "subjects": [{"kind": "ServiceAccount", "name": "gitsync-deployer", "namespace": stage.system}],
    }
    eventually(stage, lambda: stage.get("RoleBinding", "gitsync-deployer", api="rbac.authorization.k8s.io/v1") is None)
    stage.apply(binding)
    stage.commit({"prompt.yaml": prompt("be very polite")})
    eventually(stage, lambda: stage.status().get("evaluations", [{}])[-1].get("result") == "Inconclusive")
    assert "jobs" in stage.status()["evaluations"][-1]["message"]
    assert live_prompt(stage) == "be polite"
    assert copies(stage) == []
