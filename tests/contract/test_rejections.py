"""What the API server rejects: the message names object, cause and fix, and everything else is applied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, definition, deployment, job, manifest
from tests.contract.stage import Stage, eventually, is_refused

ADMISSION = "admissionregistration.k8s.io/v1"


def problems(stage: Stage) -> str:
    status = stage.status()
    return json.dumps([status.get("conditions"), status.get("problems")], ensure_ascii=False)


def rejected(stage: Stage, made: Manifest, *parts: str) -> None:
    """Commit an object beside another; wait until the status has all parts of the message, and the other is applied."""
    stage.commit({"other.yaml": config_map("other", a="1"), "object.yaml": made})
    stage.application()
    stage.start()
    eventually(stage, lambda: all(json.dumps(part, ensure_ascii=False)[1:-1] in problems(stage) for part in parts))


def quota(name: str, **hard: str) -> Manifest:
    return manifest("v1", "ResourceQuota", name, spec={"hard": hard})


def policy(stage: Stage, expression: str, message: str) -> str:
    """Create a ValidatingAdmissionPolicy for ConfigMaps of the destination named ``guarded``; return its name."""
    name = f"policy-{stage.system.rpartition('-')[2]}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
        },
        "matchConditions": [{"name": "guarded", "expression": "object.metadata.name == 'guarded'"}],
        "validations": [{"expression": expression, "message": message}],
    }
    for kind, members in (
        ("ValidatingAdmissionPolicy", spec),
        ("ValidatingAdmissionPolicyBinding", {"policyName": name, "validationActions": ["Deny"]}),
    ):
        stage.apply(manifest(ADMISSION, kind, name, spec=members))
        stage.remember(kind, name, ADMISSION)
    return name


def test_a_quota_is_named(stage: Stage) -> None:
    stage.apply({**quota("few", **{"count/secrets": "0"}), "metadata": {"name": "few", "namespace": stage.namespace}})
    path = stage.path("ResourceQuota", "few")
    eventually(stage, lambda: "hard" in stage.client.get(path).get("status", {}))
    secret = manifest("v1", "Secret", "s", stringData={"a": "1"})
    rejected(stage, secret, "exceeded quota: few", "raise the ResourceQuota few, or request less")
    eventually(stage, lambda: stage.get("ConfigMap", "other"))
    stage.delete("ResourceQuota", "few")
    eventually(stage, lambda: stage.get("Secret", "s"))


def test_pods_that_a_quota_forbids_explain_the_deployment(stage: Stage) -> None:
    stage.apply({**quota("none", pods="0"), "metadata": {"name": "none", "namespace": stage.namespace}})
    path = stage.path("ResourceQuota", "none")
    eventually(stage, lambda: "hard" in stage.client.get(path).get("status", {}))
    stage.sync({"web.yaml": deployment(replicas=1)})
    eventually(stage, lambda: "exceeded quota: none" in problems(stage))


def test_pod_security_is_named(stage: Stage) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    stage.patch("Namespace", stage.namespace, label, namespace="")
    pod = manifest("v1", "Pod", "p", spec={"hostNetwork": True, "containers": [{"name": "a", "image": "web:1"}]})
    rejected(stage, pod, "violates PodSecurity", "pod-security.kubernetes.io/enforce")
    eventually(stage, lambda: stage.get("ConfigMap", "other"))


def test_a_limit_range_is_named(stage: Stage) -> None:
    spec = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    stage.apply(
        {**manifest("v1", "LimitRange", "m", spec=spec), "metadata": {"name": "m", "namespace": stage.namespace}}
    )
    container = {"name": "a", "image": "web:1", "resources": {"limits": {"cpu": "2"}}}
    pod = manifest("v1", "Pod", "p", spec={"containers": [container]})
    rejected(stage, pod, "maximum cpu usage per Container is 1", "LimitRange of the namespace")


def test_an_admission_policy_is_named(stage: Stage) -> None:
    name = policy(stage, "object.data.a == 'good'", "a must be good")
    guarded = config_map("guarded", a="bad")
    guarded["metadata"]["namespace"] = stage.namespace
    eventually(stage, lambda: is_refused(lambda: stage.cluster.apply(guarded, manager="m", dry_run=True)))
    rejected(stage, config_map("guarded", a="bad"), name, "a must be good")
    stage.synced(stage.commit({"object.yaml": config_map("guarded", a="good")}))


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        pytest.param(
            {**config_map("c"), "data": {"a": 1}}, (".data.a: must be a string", "quote the value"), id="number"
        ),
        pytest.param(
            {**config_map("c"), "data": {"a": True}}, (".data.a: must be a string", "quote the value"), id="boolean"
        ),
        pytest.param({**config_map("c"), "dat": {}}, (".dat: field not declared in schema",), id="unknown field"),
        pytest.param(
            manifest("extensions/v1beta1", "Ingress", "i", spec={}),
            ("the cluster serves Ingress as networking.k8s.io/v1", "write apiVersion: networking.k8s.io/v1"),
            id="moved kind",
        ),
        pytest.param(
            manifest("batch/v1beta1", "CronJob", "c", spec={}),
            ("the cluster serves CronJob as batch/v1",),
            id="removed version",
        ),
        pytest.param(
            manifest("policy/v1beta1", "PodSecurityPolicy", "p", spec={}),
            ("Kubernetes 1.25 removed it",),
            id="removed kind",
        ),
        pytest.param(
            manifest("example.com/v1", "Nothing", "n"), ("install its CustomResourceDefinition first",), id="no kind"
        ),
        pytest.param(manifest("v1", "Secret", "s", data={"a": "not base64!"}), ("data.a is not base64",), id="base64"),
        pytest.param(deployment(name="Web"), ("Web", "lowercase RFC 1123"), id="name"),
        pytest.param(manifest("v1", "Service", "s", spec={"ports": [{"port": 0}]}), ("spec.ports[0].port",), id="port"),
        pytest.param(
            {**job("j"), "metadata": {"generateName": "j-", "name": "j-1"}},
            ("metadata.generateName is for hooks only",),
            id="generated name",
        ),
    ],
)
def test_an_invalid_object_is_explained(stage: Stage, made: Manifest, parts: tuple[str, ...]) -> None:
    rejected(stage, made, *parts)
    text = problems(stage)
    assert "valueUnstructured" not in text
    assert "1 of 1 objects failed" not in text


def test_an_immutable_field_is_named_with_the_annotation_that_replaces(stage: Stage) -> None:
    stage.sync({"job.yaml": job("j")})
    stage.commit({"job.yaml": job("j", image="tool:2")})
    eventually(stage, lambda: "immutable" in problems(stage))
    assert "core." not in problems(stage)
    stage.synced(stage.commit({"job.yaml": job("j", image="tool:2", force="true")}))


def test_a_long_application_name_is_rejected_at_once(stage: Stage) -> None:
    stage.commit({"a.yaml": config_map("a", a="1")})
    stage.application("a" * 64)
    stage.start()
    eventually(stage, lambda: "choose a shorter name" in json.dumps(stage.status("a" * 64)))


def test_retries_of_one_failure_leave_one_record(stage: Stage) -> None:
    secret = manifest("v1", "Secret", "s", type="kubernetes.io/tls", data={})
    stage.commit({"object.yaml": secret})
    stage.application(sync={"retry": {"limit": 20, "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}})
    stage.start()
    stage.phase("Failed")
    assert stage.engine is not None
    records = stage.engine.records

    def attempts() -> int:
        return len(records.audit_records(f"{stage.system}/app", outcome="Failed"))

    eventually(stage, lambda: attempts() >= 4)
    (entry,) = stage.status()["history"]
    assert entry["trigger"] == "commit"
    assert "Secret" in entry["reason"]


def test_a_load_balancer_without_a_provider_is_explained(stage: Stage) -> None:
    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    stage.sync({"service.yaml": manifest("v1", "Service", "s", spec=spec)})
    if stage.is_real:
        eventually(stage, lambda: "Waiting for a load balancer controller" in problems(stage))


def test_an_unbound_claim_is_explained(stage: Stage) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "absent",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    stage.sync({"claim.yaml": manifest("v1", "PersistentVolumeClaim", "c", spec=spec)})
    eventually(stage, lambda: "Waiting for a volume of StorageClass absent" in problems(stage))


def test_a_custom_resource_of_the_wrong_type_is_explained(stage: Stage) -> None:
    group = f"c{stage.system.rpartition('-')[2]}.example.com"
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    stage.sync({"crd.yaml": definition(group)})
    stage.commit({"widget.yaml": manifest(f"{group}/v1", "Widget", "w", spec={"size": "many"})})
    eventually(stage, lambda: ".spec.size" in problems(stage) or "spec.size" in problems(stage))
    assert stage.get("Widget", "w", api=f"{group}/v1") is None
