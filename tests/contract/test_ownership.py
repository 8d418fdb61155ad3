"""Fields that autoscalers, controllers and other people write: what Git leaves to them is never sent."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, deployment, manifest
from tests.contract.stage import Stage, eventually, is_refused

REPLICAS = [{"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]


def owners_of_replicas(live: Manifest) -> set[str]:
    return {
        entry["manager"]
        for entry in live["metadata"]["managedFields"]
        if "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
    }


def scale(stage: Stage, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    stage.patch("Deployment", "web", body, api="apps/v1", manager="kube-controller-manager", subresource="scale")


def replicas(stage: Stage) -> Any:
    return stage.live("Deployment", "web", api="apps/v1")["spec"]["replicas"]


@pytest.mark.timeout(600)  # 50 rollouts of a real cluster
def test_ignored_replicas_survive_syncs_for_other_reasons(stage: Stage) -> None:
    stage.sync({"web.yaml": deployment(replicas=2)}, sync={"ignoreDifferences": REPLICAS})
    syncs = 50 if stage.is_real else 10
    for count in range(3, 3 + syncs):
        scale(stage, count)
        stage.synced(stage.commit({"web.yaml": deployment(replicas=2, image=f"web:{count}")}))
        assert replicas(stage) == count
    assert "gitsync" not in owners_of_replicas(stage.live("Deployment", "web", api="apps/v1"))


def test_a_contested_field_is_corrected_ever_more_rarely(stage: Stage) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5}
    autoscaler = manifest("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=spec)
    stage.sync({"web.yaml": [deployment(replicas=1), autoscaler, config_map("other", a="1")]})

    def is_explained() -> bool:
        if replicas(stage) == 1:
            scale(stage, 3)
        return "remove spec.replicas from Git" in json.dumps(stage.status()["conditions"])

    eventually(stage, is_explained)
    message = next(each["message"] for each in stage.status()["conditions"] if each["type"] == "Ready")
    for part in ("Deployment", "web", ".spec.replicas", "kube-controller-manager", "HorizontalPodAutoscaler"):
        assert part in message
    stage.patch("ConfigMap", "other", {"data": {"a": "2"}})
    eventually(stage, lambda: stage.live("ConfigMap", "other")["data"]["a"] == "1")
    corrections = stage.status()["drift"]["correctedTotal"]
    assert corrections <= 5, "corrections of a contested field must not go on"

    stage.synced(stage.commit({"web.yaml": [deployment(replicas=None), autoscaler, config_map("other", a="1")]}))
    assert replicas(stage) == 3


def test_a_field_that_git_stops_declaring_keeps_its_value(stage: Stage) -> None:
    stage.sync({"web.yaml": deployment(replicas=2)}, sync={"ignoreDifferences": REPLICAS})
    scale(stage, 5)
    stage.synced(stage.commit({"web.yaml": deployment(replicas=None, image="web:2")}))
    assert replicas(stage) == 5


def test_an_ignored_field_that_nobody_else_owns_keeps_its_value(stage: Stage) -> None:
    rules = [{"kind": "ConfigMap", "jsonPointers": ["/data/a"]}]
    stage.sync({"config.yaml": config_map("c", a="1", b="1")}, sync={"ignoreDifferences": rules})
    stage.synced(stage.commit({"config.yaml": config_map("c", a="2", b="2")}))
    assert stage.live("ConfigMap", "c")["data"] == {"a": "1", "b": "2"}


def test_an_ignored_item_of_a_list_is_never_sent(stage: Stage) -> None:
    pointer = "/spec/template/spec/containers/0/image"
    rules = [{"group": "apps", "kind": "Deployment", "jsonPointers": [pointer]}]
    stage.sync({"web.yaml": deployment(replicas=1)}, sync={"ignoreDifferences": rules})
    image = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:hot-fix"}]}}}}
    stage.patch("Deployment", "web", image, "strategic", api="apps/v1", manager="image-updater")
    stage.synced(stage.commit({"web.yaml": deployment(replicas=2)}))
    live = stage.live("Deployment", "web", api="apps/v1")
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:hot-fix"
    assert live["spec"]["replicas"] == 2


def test_an_ignored_field_inside_a_whole_list_is_never_sent(stage: Stage) -> None:
    """Where the plan asks the API server by a dry run, the answer has the live value."""

    def ingress(host: str, note: str) -> Manifest:
        made = manifest("networking.k8s.io/v1", "Ingress", "web")
        made["metadata"]["annotations"] = {"example.com/note": note}
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        http = {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}
        return {**made, "spec": {"rules": [{"host": host, "http": http}]}}

    def live() -> Manifest:
        return stage.live("Ingress", "web", api="networking.k8s.io/v1")

    rules = [{"group": "networking.k8s.io", "kind": "Ingress", "jsonPointers": ["/spec/rules/0/host"]}]
    healthy = [{"group": "networking.k8s.io", "kind": "Ingress", "current": "true"}]
    sync = {"ignoreDifferences": rules}
    stage.sync({"web.yaml": ingress("a.example.com", "1")}, sync=sync, healthChecks=healthy)
    stage.synced(stage.commit({"web.yaml": ingress("b.example.com", "2")}))
    assert live()["metadata"]["annotations"]["example.com/note"] == "2"
    assert live()["spec"]["rules"][0]["host"] == "a.example.com"


def test_aggregated_rules_are_no_drift(stage: Stage) -> None:
    unique = stage.system.rpartition("-")[2]
    label = f"contract-{unique}"
    rbac = "rbac.authorization.k8s.io/v1"
    part = manifest(rbac, "ClusterRole", f"part-{unique}")
    part["metadata"]["labels"] = {label: "true"}
    part["rules"] = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    whole = manifest(rbac, "ClusterRole", f"whole-{unique}")
    whole["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    whole["rules"] = []
    for role in (part, whole):
        stage.remember("ClusterRole", role["metadata"]["name"], rbac)
    stage.sync({"roles.yaml": [part, whole]})
    eventually(stage, lambda: stage.live("ClusterRole", f"whole-{unique}", api=rbac).get("rules"))
    version = stage.live("ClusterRole", f"whole-{unique}", api=rbac)["metadata"]["resourceVersion"]
    stage.synced(stage.commit({"more.yaml": config_map("more", a="1")}))
    assert stage.plan_writes() == []
    live = stage.live("ClusterRole", f"whole-{unique}", api=rbac)
    assert live["rules"] == part["rules"]
    assert live["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("declared", [{}, {"caBundle": ""}, {"caBundle": "Cg=="}], ids=["absent", "empty", "newline"])
def test_an_injected_certificate_survives_syncs_without_drift(stage: Stage, declared: dict[str, str]) -> None:
    api, name = "admissionregistration.k8s.io/v1", f"hook-{stage.system.rpartition('-')[2]}"
    stage.remember("ValidatingWebhookConfiguration", name, api)
    hook = {
        "name": "check.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/none", **declared},
        "rules": [
            {"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    stage.sync({"hook.yaml": manifest(api, "ValidatingWebhookConfiguration", name, webhooks=[hook])})
    bundle = base64.b64encode(authority()).decode()
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    stage.patch("ValidatingWebhookConfiguration", name, patch, "json", api=api, manager="cainjector")
    for size in ("1", "2"):
        stage.synced(stage.commit({"more.yaml": config_map("more", a=size)}))
        live = stage.live("ValidatingWebhookConfiguration", name, api=api)
        assert live["webhooks"][0]["clientConfig"]["caBundle"] == bundle
        assert stage.plan_writes() == []
    hook["failurePolicy"] = "Fail"  # a change of the configuration itself
    stage.synced(stage.commit({"hook.yaml": manifest(api, "ValidatingWebhookConfiguration", name, webhooks=[hook])}))
    (live_hook,) = stage.live("ValidatingWebhookConfiguration", name, api=api)["webhooks"]
    assert (live_hook["failurePolicy"], live_hook["clientConfig"]["caBundle"]) == ("Fail", bundle)


LISTS = {
    "tolerations": (
        "Deployment",
        "apps/v1",
        "/spec/template/spec/tolerations",
        {"key": "theirs", "operator": "Exists"},
    ),
    "ingress": ("NetworkPolicy", "networking.k8s.io/v1", "/spec/ingress", {"ports": [{"port": 9}]}),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_addition_to_an_atomic_list_is_explained(stage: Stage, name: str) -> None:
    kind, api, pointer, addition = LISTS[name]
    own = {"key": "ours", "operator": "Exists"}
    policy = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}
    made = {
        "Deployment": deployment(replicas=1, tolerations=[own]),
        "NetworkPolicy": manifest(api, "NetworkPolicy", "web", spec=policy),
    }[kind]
    stage.sync({"web.yaml": made})
    patch = [{"op": "add", "path": f"{pointer}/-", "value": addition}]
    stage.patch(kind, "web", patch, "json", api=api, manager="their-operator")
    assert stage.engine is not None
    records = stage.engine.records
    eventually(stage, lambda: len(records.history(f"{stage.system}/app")) == 2)
    (step,) = records.history(f"{stage.system}/app")[0].steps
    assert "is an atomic list, which an apply replaces as a whole: it loses 1 item" in step.reason
    assert "spec.sync.ignoreDifferences" in step.reason


def authority() -> bytes:
    """Return a certificate, as an injector writes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "contract")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), start, datetime(2036, 1, 1, tzinfo=UTC)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_an_unreachable_webhook_fails_its_objects_only(stage: Stage) -> None:
    api, name = "admissionregistration.k8s.io/v1", f"hook-{stage.system.rpartition('-')[2]}"
    stage.remember("ValidatingWebhookConfiguration", name, api)
    stage.sync({"objects.yaml": [config_map("free", a="1"), config_map("guarded", a="1")]})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    hook = {
        "name": "check.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/none"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
        "matchConditions": [{"name": "guarded", "expression": "object.metadata.name == 'guarded'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
    }
    stage.apply(manifest(api, "ValidatingWebhookConfiguration", name, webhooks=[hook]))
    if stage.is_real:
        guarded = {"data": {"a": "probe"}}
        eventually(stage, lambda: is_refused(lambda: stage.patch("ConfigMap", "guarded", guarded)))
    stage.commit({"objects.yaml": [config_map("free", a="2"), config_map("guarded", a="2")]})
    eventually(stage, lambda: stage.live("ConfigMap", "free")["data"]["a"] == "2")
    eventually(stage, lambda: "check.example.com" in json.dumps(stage.status().get("problems", "")))

    stage.patch("ConfigMap", "free", {"data": {"a": "edited"}})
    eventually(stage, lambda: stage.live("ConfigMap", "free")["data"]["a"] == "2")
    assert stage.live("ConfigMap", "guarded")["data"]["a"] == "1"

    stage.delete("ValidatingWebhookConfiguration", name, namespace="", api=api)
    eventually(stage, lambda: stage.live("ConfigMap", "guarded")["data"]["a"] == "2")
