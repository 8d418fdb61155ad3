"""Requests are counted by verb, resource and code, whatever the objects are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from gitsync.cluster.client import Client, Connection, DirectClient, resource_of
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable, InvalidInput, Rejected
from gitsync.sandbox.server import Sandbox
from tests.cluster.factories import config_map


@pytest.mark.parametrize(
    ("path", "resource", "is_one"),
    [
        ("/api/v1/namespaces/shop/configmaps/a", "configmaps", True),
        ("/api/v1/namespaces/shop/configmaps", "configmaps", False),
        ("/apis/apps/v1/deployments", "deployments.apps", False),
        ("/apis/apps/v1/namespaces/shop/deployments/web/status", "deployments.apps/status", True),
        ("/api/v1/namespaces/shop", "namespaces", True),
        ("/api/v1/namespaces/shop/status", "namespaces/status", True),
        ("/api/v1/namespaces", "namespaces", False),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/a", "clusterroles.rbac.authorization.k8s.io", True),
        ("/apis/apps/v1", "discovery", True),
        ("/apis", "discovery", True),
        ("/api", "discovery", True),
        ("/openapi/v3/apis/apps/v1", "openapi", True),
    ],
)
def test_a_path_gives_its_resource_and_no_name(path: str, resource: str, is_one: bool) -> None:
    assert resource_of(path) == (resource, is_one)


def counted(verb: str, resource: str, code: str) -> float:
    labels = {"verb": verb, "resource": resource, "code": code}
    return REGISTRY.get_sample_value("gitsync_api_requests_total", labels) or 0.0


def test_requests_are_counted_with_their_codes(client: Client, cluster: KubernetesCluster, server: Sandbox) -> None:
    wanted = [("apply", "200"), ("apply", "201"), ("list", "200"), ("get", "404"), ("watch", "200"), ("list", "none")]
    before = {pair: counted(pair[0], "configmaps", pair[1]) for pair in wanted}
    cluster.apply(config_map(x="1"), manager="m")
    cluster.apply(config_map(x="2"), manager="m")
    page = client.get("/api/v1/namespaces/default/configmaps")
    with pytest.raises(Rejected):
        client.get("/api/v1/namespaces/default/configmaps/absent")
    query = {"watch": "true", "resourceVersion": page["metadata"]["resourceVersion"]}
    client.stream("/api/v1/configmaps", query).close()
    server.stop()
    with pytest.raises(ClusterUnavailable):
        client.get("/api/v1/configmaps")
    after = {pair: counted(pair[0], "configmaps", pair[1]) for pair in wanted}
    assert {pair: after[pair] - before[pair] for pair in wanted} == dict.fromkeys(wanted, 1.0)
    labels = {"verb": "apply", "resource": "configmaps"}
    assert (REGISTRY.get_sample_value("gitsync_api_request_duration_seconds_count", labels) or 0) >= 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n- b\n", "not lists of named entries"),
        ("just text", "not lists of named entries"),
        ("clusters: {a: [", "line 1: invalid YAML: expected"),
        ("kind: Config\nclusters: [\n", "invalid YAML: expected"),
        ("clusters: 1\ncontexts: []\n", "not lists of named entries"),
        ("\ufeff: {", "line 1: invalid YAML"),
        ("kind: Config\n", "current-context"),
    ],
)
def test_a_broken_kubeconfig_is_an_error_of_the_user(tmp_path: Path, text: str, problem: str) -> None:
    config = tmp_path / "config"
    config.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="no usable cluster configuration") as failed:
        Client(Connection(str(config)))
    assert failed.value.location == str(config)
    assert problem in failed.value.message
    assert "\n" not in str(failed.value)
    assert "\\n" not in str(failed.value)
    assert "object" not in failed.value.message


@pytest.mark.parametrize("context", ["sandbox", ""], ids=["named", "current"])
@pytest.mark.parametrize("is_named", [True, False], ids=["by option", "by KUBECONFIG"])
def test_a_server_that_does_not_answer_is_named_with_its_kubeconfig(
    tmp_path: Path, server: Sandbox, monkeypatch: pytest.MonkeyPatch, context: str, *, is_named: bool
) -> None:
    config = str(server.kubeconfig(tmp_path / "config"))
    monkeypatch.setenv("KUBECONFIG", config)
    client = Client(Connection(config if is_named else "", context))
    server.stop()
    with pytest.raises(ClusterUnavailable) as failed:
        client.get("/version")
    assert failed.value.location == f"{client.host} (kubeconfig {config}, context sandbox)"


def test_a_kubeconfig_that_is_gone_is_still_named(tmp_path: Path, server: Sandbox) -> None:
    config = server.kubeconfig(tmp_path / "config")
    client = Client(Connection(str(config)))
    config.unlink()
    assert client.place == f"{client.host} (kubeconfig {config})"


def test_a_certificate_authority_that_was_replaced_is_read_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = client._api
    error = OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    with monkeypatch.context() as outage:
        outage.setattr(Client, "_send", lambda *arguments: (_ for _ in ()).throw(error))
        with pytest.raises(ClusterUnavailable):
            client.get("/api/v1/configmaps")
    assert client._api is not before
    assert "items" in client.get("/api/v1/configmaps")


def test_a_server_of_this_process_is_asked_without_a_connection() -> None:
    with Sandbox(controllers=False, listening=False) as sandbox:
        client = DirectClient(sandbox.answer)
        assert sandbox.url == ""
        spaces = "/api/v1/namespaces"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        applied = client.apply(f"{spaces}/default/configmaps/a", body, {"fieldManager": "test"})
        assert applied["metadata"]["uid"]
        assert client.get(f"{spaces}/default/configmaps")["items"][0]["metadata"]["name"] == "a"
        with pytest.raises(Rejected, match="not found") as failed:
            client.get(f"{spaces}/none")
        assert failed.value.code == 404
        with pytest.raises(TypeError, match="needs a connection"):
            client.get(spaces, {"watch": "1"})
