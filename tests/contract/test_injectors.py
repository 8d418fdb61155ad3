"""What a mutating webhook injects into our own writes stays: nothing is restored, and nothing is reported."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.http.transport.tls import make_certificate
from tests.contract.manifests import config_map, manifest
from tests.contract.stage import TIMEOUT, Stage, eventually
from tests.http_service import serve_http
from tests.waiting import until

APPS = "apps/v1"
SIDECAR = {
    "name": "istio-proxy",
    "image": "istio/proxyv2:1.29",
    "volumeMounts": [{"name": "istio-envoy", "mountPath": "/etc/istio/proxy"}],
}
SPEC = {
    "containers": [{"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}]}],
    "tolerations": [{"key": "own", "operator": "Exists"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
}


def pod_of(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the Pod, or the template of one, in an object."""
    if obj["kind"] == "Pod":
        return obj
    holder = obj["spec"]["jobTemplate"]["spec"] if obj["kind"] == "CronJob" else obj["spec"]
    return dict(holder["template"])


def with_sidecar(obj: Manifest) -> Manifest:
    """Return an object as injectors change it: a container, a variable, volumes, a label, and where Pods may run."""
    result = copy.deepcopy(dict(obj))
    if obj["kind"] == "Service":
        metadata_of(result).setdefault("annotations", {})["config.linkerd.io/opaque-ports"] = "3306"
        return result
    pod = pod_of(result)
    spec = pod["spec"]
    for container in spec["containers"]:
        if container["name"] != SIDECAR["name"]:
            insert(container.setdefault("env", []), {"name": "VAULT_ADDR", "value": "https://vault:8200"}, at=1)
    # in front, as Istio does: the declared container gets another index
    insert(spec["containers"], SIDECAR)
    insert(spec.setdefault("volumes", []), {"name": "istio-envoy", "emptyDir": {}})
    insert(spec["tolerations"], {"key": "injected", "operator": "Exists"}, at=1)
    spec["nodeSelector"]["injected"] = "true"
    pod.setdefault("metadata", {}).setdefault("labels", {})["security.istio.io/tlsMode"] = "istio"
    return result


def insert(items: list[Any], item: dict[str, Any], at: int = 0) -> None:
    """Insert an item that is not there: an injector sees its own work again in each update."""
    name = next(iter(item))
    if all(other[name] != item[name] for other in items):
        items.insert(at, item)


class Injector(BaseHTTPRequestHandler):
    """A mutating webhook that answers each review with a JSON patch of the members that it changes."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        obj = request["object"]
        changed = with_sidecar(obj)
        patch = [
            {"op": "replace" if name in obj else "add", "path": f"/{name}", "value": value}
            for name, value in changed.items()
            if obj.get(name) != value
        ]
        response = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        content = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def injecting(stage: Stage, tmp_path: Path) -> Iterator[Stage]:
    """A stage in whose namespace a webhook injects into workloads, Pods and Services."""
    certificate = make_certificate()
    pem = tmp_path / "injector.pem"
    pem.write_text(certificate.certificate + certificate.key, encoding="ascii")
    with serve_http(Injector, pem) as port:
        client = {
            "url": f"https://127.0.0.1:{port}/inject",
            "caBundle": base64.b64encode(certificate.authority.encode()).decode(),
        }
        hook = {
            "name": "inject.example.com",
            "clientConfig": client,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
            "rules": [
                rule("", ["pods"], "CREATE"),
                rule("", ["services"], "CREATE", "UPDATE"),
                rule("apps", ["deployments", "statefulsets"], "CREATE", "UPDATE"),
                rule("batch", ["cronjobs"], "CREATE", "UPDATE"),
            ],
        }
        name = f"{stage.system}-injector"
        api = "admissionregistration.k8s.io/v1"
        stage.apply(manifest(api, "MutatingWebhookConfiguration", name, webhooks=[hook]))
        # an API server calls a webhook only some time after its configuration exists
        until(lambda: is_injected(stage.cluster.apply(probe(stage), manager="probe", dry_run=True)), TIMEOUT)
        yield stage
        # before its server ends: nothing of the namespace could be deleted otherwise
        stage.delete("MutatingWebhookConfiguration", name, namespace="", api=api)
        stage.stop()


def rule(group: str, resources: list[str], *operations: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": list(operations), "resources": resources}


def workload(kind: str, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
    return manifest(APPS, kind, "web", spec={"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec})


def probe(stage: Stage) -> Manifest:
    made = workload("Deployment")
    return {**made, "metadata": {**made["metadata"], "namespace": stage.namespace}}


def is_injected(obj: Manifest) -> bool:
    return any(item["name"] == SIDECAR["name"] for item in pod_of(dict(obj))["spec"]["containers"])


JOB = {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}
DECLARED = (
    workload("Deployment"),
    workload("StatefulSet", serviceName="web"),
    manifest("batch/v1", "CronJob", "web", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB}}),
    manifest("v1", "Pod", "web", spec=SPEC),
    manifest("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
)


def test_what_an_injector_adds_stays_and_is_no_drift(injecting: Stage) -> None:
    stage = injecting
    stage.sync({"web.yaml": DECLARED, "config.yaml": config_map("config", a="1")}, risk={"approval": "Dangerous"})
    until(lambda: stage.plan_writes() == [], TIMEOUT, stage.plan_writes)
    for declared in DECLARED[:-1]:
        assert is_injected(stage.live(declared["kind"], "web", api=declared["apiVersion"])), declared["kind"]
    # each commit plans every object again
    stage.synced(stage.commit({"config.yaml": config_map("config", a="2")}))
    stage.patch("Deployment", "web", {"metadata": {"annotations": {"seen": "by-a-user"}}}, api=APPS)
    eventually(stage, lambda: ".metadata.annotations.seen" in str(stage.status().get("conditions")))
    status = stage.status()
    assert not (status.get("drift") or {}).get("objects")
    assert not (status.get("drift") or {}).get("correctedTotal")
    assert "istio" not in str(status["conditions"])
    assert "injected" not in str(status["conditions"])
    assert stage.engine is not None
    records = stage.engine.records.history(f"{stage.system}/app")
    assert "drift" not in {record.trigger for record in records}


def test_a_hijack_beside_a_sidecar_is_restored(injecting: Stage) -> None:
    stage = injecting
    stage.sync({"web.yaml": DECLARED[0]}, risk={"approval": "Dangerous"})
    hijack = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "evil:1"}]}}}}
    stage.patch("Deployment", "web", hijack, "strategic", api=APPS, manager="kubectl-set")

    def images() -> list[str]:
        live = stage.live("Deployment", "web", api=APPS)
        return [item["image"] for item in live["spec"]["template"]["spec"]["containers"]]

    eventually(stage, lambda: images() == [SIDECAR["image"], "web:1"])
