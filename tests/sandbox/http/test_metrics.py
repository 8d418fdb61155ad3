"""The API metrics.k8s.io: values of simulated Pods, the form of metrics-server, who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client
from tests.waiting import until

GROUP = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def api() -> Iterator[Client]:
    with Sandbox() as sandbox:
        api = Client(sandbox)
        run(api, "web", "proxy", "app", usage={"cpu": "250m", "memory": "64Mi"}, labels={"app": "web"})
        run(api, "other", "app", usage={"cpu": "1"})
        run(api, "odd", "app", usage={"cpu": "much"})
        run(api, "unmeasured", "app", usage={})
        yield api


def run(api: Client, name: str, *containers: str, usage: dict[str, str], labels: dict[str, str] | None = None) -> None:
    manifest = {
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {f"sandbox.gitsync.dev/usage-{resource}": value for resource, value in usage.items()},
        },
        "spec": {"containers": [{"name": container, "image": "nginx"} for container in containers]},
    }
    answer = api.ask("POST", PODS, manifest)
    assert answer.status == 201, answer.body
    until(lambda: api.get(f"{PODS}/{name}").json["status"].get("phase") == "Running", 20)


def usage_of(metrics: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {container["name"]: container["usage"] for container in metrics["containers"]}


def test_each_container_of_a_pod_uses_what_the_annotations_say(api: Client) -> None:
    metrics = api.get(f"{GROUP}/namespaces/default/pods/web").json
    assert (metrics["apiVersion"], metrics["kind"]) == ("metrics.k8s.io/v1beta1", "PodMetrics")
    assert metrics["metadata"]["labels"] == {"app": "web"}
    assert metrics["window"] == "15.000s"
    each = {"cpu": "250000000n", "memory": "65536Ki"}
    assert usage_of(metrics) == {"proxy": each, "app": each}


def test_an_amount_that_is_absent_or_no_quantity_is_nothing(api: Client) -> None:
    found = {item["metadata"]["name"]: usage_of(item) for item in api.get(f"{GROUP}/pods").json["items"]}
    assert found["other"] == {"app": {"cpu": "1000000000n", "memory": "0Ki"}}
    assert found["odd"] == {"app": {"cpu": "0n", "memory": "0Ki"}}


def test_lists_are_selected_by_namespace_and_labels(api: Client) -> None:
    assert api.get(f"{GROUP}/namespaces/default/pods").names == ["odd", "other", "web"]
    assert api.get(f"{GROUP}/pods?labelSelector=app%3Dweb").names == ["web"]
    assert api.get(f"{GROUP}/namespaces/kube-system/pods").names == []


def test_a_pod_without_annotations_is_not_measured(api: Client) -> None:
    answer = api.get(f"{GROUP}/namespaces/default/pods/unmeasured")
    assert answer.status == 404
    assert answer.json["message"] == 'podmetrics.metrics.k8s.io "default/unmeasured" not found'


def test_a_node_uses_what_its_pods_use(api: Client) -> None:
    nodes = api.get(f"{GROUP}/nodes").json["items"]
    assert sum(int(node["usage"]["cpu"].removesuffix("n")) for node in nodes) == 1_500_000_000
    one = api.get(f"{GROUP}/nodes/{nodes[0]['metadata']['name']}").json
    assert one["kind"] == "NodeMetrics"
    assert one["usage"] == nodes[0]["usage"]


def test_tables_add_up_the_containers(api: Client) -> None:
    table = api.get(f"{GROUP}/namespaces/default/pods/web", Accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "CPU", "Memory", "Window"]
    assert table["rows"][0]["cells"] == ["web", "500000000n", "131072Ki", "15.000s"]


def test_the_group_is_read_only_and_comes_last(api: Client) -> None:
    groups = [group["name"] for group in api.get("/apis").json["groups"]]
    assert groups[-1] == "metrics.k8s.io"
    verbs = {resource["name"]: resource["verbs"] for resource in api.get(GROUP).json["resources"]}
    assert verbs == {"nodes": ["get", "list"], "pods": ["get", "list"]}
    assert api.ask("DELETE", f"{GROUP}/namespaces/default/pods/web").status == 405


def test_who_may_view_a_namespace_may_read_its_metrics(api: Client) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until(lambda: api.get(account).status == 200, 10)
    viewer = Client(api.sandbox, api.ask("POST", f"{account}/token", {"spec": {}}).json["status"]["token"])
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    assert viewer.get(f"{GROUP}/namespaces/default/pods").status == 403
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert api.ask("POST", bindings, binding).status == 201
    until(lambda: viewer.get(f"{GROUP}/namespaces/default/pods").status == 200, 10)
    assert viewer.get(f"{GROUP}/nodes").status == 403


def test_a_server_without_workloads_has_no_metrics() -> None:
    with Sandbox(workloads=False) as sandbox:
        assert Client(sandbox).get(GROUP).status == 404
