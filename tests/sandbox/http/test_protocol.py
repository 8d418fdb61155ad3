"""The wire: methods, negotiation, limits, credentials, connections."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gitsync.cluster.client import Client as KubernetesClient
from gitsync.cluster.client import Connection
from gitsync.errors import ClusterUnavailable
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client
from tests.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"


def test_health_and_version_answer_without_credentials(api: Client) -> None:
    anonymous = Client(api.sandbox, token="")
    assert anonymous.get("/healthz").body == b"ok"
    assert anonymous.get("/readyz?verbose").body.startswith(b"[+]")
    assert anonymous.get("/version").json["minor"] == "36"


def test_wrong_tokens_are_unauthorized_and_none_is_anonymous(api: Client) -> None:
    assert Client(api.sandbox, token="wrong").get(MAPS).status == 401
    answer = Client(api.sandbox, token="").get(MAPS)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert "system:anonymous" in answer.json["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", MAPS),
        ("POST", f"{MAPS}/x"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("OPTIONS", MAPS),
        ("DELETE", "/version"),
        ("PATCH", "/api/v1/namespaces/default/pods/x/log"),
    ],
)
def test_methods_a_url_does_not_have_are_405(api: Client, method: str, path: str) -> None:
    answer = api.ask(method, path, {})
    assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")


def test_unknown_urls_are_text_and_unknown_resources_are_a_status(api: Client) -> None:
    assert api.get("/nothing").body == b"404 page not found\n"
    assert api.get("/apis/none.example.com/v1/things").body == b"404 page not found\n"
    assert api.get("/api/v1/things").json["reason"] == "NotFound"
    assert api.get("/api/v1/namespaces/default/configmaps/x/y").status == 404
    assert api.get("/api/v1/namespaces/default/nodes").status == 404


def test_bodies_over_three_mebibytes_are_413(api: Client) -> None:
    answer = api.ask("POST", MAPS, b"x" * (3 * 1024 * 1024 + 1))
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


def test_unknown_media_types_are_406_and_415(api: Client) -> None:
    assert api.get(MAPS, Accept="text/html").status == 406
    assert api.get(MAPS, Accept="application/json;as=Bogus;v=v1;g=meta.k8s.io").status == 406
    assert api.ask("POST", MAPS, b"x", Content_Type="text/plain").status == 415
    assert api.ask("PATCH", f"{MAPS}/x", {}, Content_Type="application/json").status == 415


def test_yaml_is_read_and_written(api: Client) -> None:
    path = api.namespace()
    body = b"metadata: {name: yaml}\ndata:\n  a: 'yes'\n  b: |\n    two\n    lines\n"
    assert api.ask("POST", path, body, Content_Type="application/yaml").status == 201
    answer = api.get(f"{path}/yaml", Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert b'  a: "yes"\n  b: |\n    two\n    lines\n' in answer.body


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": True},
        {"name": 1},
        {"name": "x", "labels": []},
        {"name": "x", "labels": {"a": 1}},
        {"name": "x", "finalizers": "x"},
        {"name": "x", "finalizers": [1]},
        {"name": "x", "ownerReferences": [1]},
        {"name": "x", "ownerReferences": {}},
        {"name": "x", "generateName": []},
        {"name": "x", "uid": {}},
        {"name": "x", "generation": "1"},
        [],
        "x",
    ],
)
def test_metadata_of_the_wrong_type_is_400(api: Client, metadata: object) -> None:
    answer = api.ask("POST", MAPS, {"metadata": metadata})
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert "json: cannot unmarshal" in answer.json["message"]


def test_chunked_bodies_are_read(api: Client) -> None:
    path = api.namespace()
    connection = api.connect()
    headers = {"Authorization": f"Bearer {api.token}", "Transfer-Encoding": "chunked"}
    parts = (b'{"metadata":', b'{"name":"chunked"}}')
    connection.request("POST", path, iter(parts), headers, encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()


def test_a_connection_serves_many_requests_also_when_they_are_sent_at_once(api: Client) -> None:
    host, _, port = api.sandbox.url.removeprefix("http://").partition(":")
    request = f"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode()
    last = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(request * 3 + last)
        answer = b"".join(iter(lambda: plain.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 4


def test_what_is_no_http_is_answered_with_400_and_the_end(api: Client) -> None:
    host, _, port = api.sandbox.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(b"hello\r\n\r\n")
        answer = b"".join(iter(lambda: plain.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_head_request_has_no_body(api: Client) -> None:
    connection = api.connect()
    api.send(connection, "HEAD", MAPS)
    response = connection.getresponse()
    assert (response.status, response.read()) == (405, b"")
    api.send(connection, "GET", "/healthz")
    assert connection.getresponse().read() == b"ok"
    connection.close()


def test_the_same_port_speaks_tls_to_whoever_trusts_its_authority(api: Client, tmp_path: Any) -> None:
    config = api.sandbox.kubeconfig(tmp_path / "config")
    assert config.stat().st_mode & 0o777 == 0o600
    context = ssl.create_default_context(cadata=api.sandbox.authority)
    address = api.sandbox.tls_url.removeprefix("https://")
    connection = http.client.HTTPSConnection(address, timeout=60, context=context)
    connection.request("GET", "/api/v1/namespaces", headers={"Authorization": f"Bearer {api.token}"})
    assert "default" in [item["metadata"]["name"] for item in json.load(connection.getresponse())["items"]]
    connection.close()


def test_who_does_not_trust_it_gets_no_answer(api: Client) -> None:
    connection = http.client.HTTPSConnection(api.sandbox.tls_url.removeprefix("https://"), timeout=60)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/version")
    connection.close()
    assert api.get("/healthz").status == 200


def test_a_new_certificate_is_trusted_by_whoever_reads_the_new_kubeconfig(tmp_path: Path) -> None:
    with Sandbox(controllers=False) as sandbox:
        client = KubernetesClient(Connection(str(sandbox.kubeconfig(tmp_path / "config"))))
        former = sandbox.authority
        assert client.get("/api/v1/namespaces")["items"]
        sandbox.rotate()
        assert sandbox.authority != former
        with pytest.raises(ClusterUnavailable, match="certificate"):
            client.get("/api/v1/namespaces")
        sandbox.kubeconfig(tmp_path / "config")
        until(lambda: _is_answered(client))
        client.close()


def _is_answered(client: KubernetesClient) -> bool:
    with suppress(ClusterUnavailable):
        return bool(client.get("/api/v1/namespaces")["items"])
    return False


def test_many_clients_at_once_all_get_their_answer(api: Client) -> None:
    path = api.namespace()
    failures: list[object] = []

    def create(number: int) -> None:
        answer = api.ask("POST", path, {"metadata": {"name": f"c{number}"}})
        if answer.status != 201:
            failures.append(answer)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(api.get(path).names) == 40


def test_impersonation_takes_the_groups_named(api: Client) -> None:
    asked = {"Impersonate_User": "jane", "Impersonate_Group": "system:masters"}
    assert api.get(MAPS, **asked).status == 200
    assert api.get(MAPS, Impersonate_User="jane").status == 403
    assert api.get(MAPS, Impersonate_Group="system:masters").status == 400


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (("", "users", "jane"), {"Impersonate_User": "jane"}),
        (("", "serviceaccounts", "robot"), {"Impersonate_User": "system:serviceaccount:default:robot"}),
    ],
)
def test_impersonation_takes_the_right_on_the_kind_of_user(
    api: Client, rule: tuple[str, str, str], asked: dict[str, str]
) -> None:
    rbac, name = "/apis/rbac.authorization.k8s.io/v1", f"impersonator-{rule[1]}"
    group, resource, allowed = rule
    rules = [{"apiGroups": [group], "resources": [resource], "resourceNames": [allowed], "verbs": ["impersonate"]}]
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
    accounts, metadata = "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name}
    assert api.ask("POST", accounts, metadata).status == 201
    bindings = f"{rbac}/namespaces/default/rolebindings"
    assert api.ask("POST", f"{rbac}/clusterroles", {**metadata, "rules": rules}).status == 201
    assert api.ask("POST", bindings, {**metadata, "roleRef": role, "subjects": subjects}).status == 201
    token = api.ask("POST", f"{accounts}/{name}/token", {"spec": {}}).json["status"]["token"]
    robot, reviews = Client(api.sandbox, token=token), "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    answer = robot.ask("POST", reviews, {}, **asked)
    is_account = resource == "serviceaccounts"
    assert answer.status == (201 if is_account else 403)  # a RoleBinding holds for what is in its namespace: no users
    assert robot.ask("POST", reviews, {}, **asked, Impersonate_Group="team").status == 403
    assert robot.ask("POST", reviews, {}, Impersonate_User="system:serviceaccount:kube-system:robot").status == 403


def test_a_service_account_is_who_its_token_says(api: Client) -> None:
    base = "/api/v1/namespaces/default/serviceaccounts"
    assert api.ask("POST", base, {"metadata": {"name": "robot"}}).status == 201
    answer = api.ask("POST", f"{base}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert answer.status == 201
    robot = Client(api.sandbox, token=answer.json["status"]["token"])
    review = robot.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    assert robot.get(MAPS).status == 403


def test_requests_are_counted_by_verb_resource_and_agent(fresh: Client) -> None:
    fresh.get(MAPS)
    fresh.get(MAPS, User_Agent="other/2")
    fresh.create(MAPS, "c")
    assert fresh.sandbox.requests(verb="list", resource="configmaps") == 2
    assert fresh.sandbox.requests(agent="other") == 1
    counted = fresh.get("/sandbox/requests").json["requests"]
    assert {
        "verb": "create",
        "resource": "configmaps",
        "user": "sandbox-admin",
        "userAgent": "tests/1",
        "count": 1,
    } in counted
    fresh.ask("DELETE", "/sandbox/requests")
    assert fresh.sandbox.requests() == 0


def test_only_administrators_may_use_the_sandbox_paths(api: Client) -> None:
    assert api.get("/sandbox/faults", Impersonate_User="jane").status == 403
    assert api.get("/sandbox/nothing").status == 404
    assert api.ask("PUT", "/sandbox/faults", {}).status == 405


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/namespaces/default/serviceaccounts/odd/token", {"spec": 1}),
        ("/api/v1/namespaces/default/serviceaccounts/odd/token", {"spec": {"expirationSeconds": "x"}}),
        ("/api/v1/namespaces/default/serviceaccounts/odd/token", {"spec": {"audiences": 1}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": 1}}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"groups": 1}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": "x"}),
    ],
)
def test_questions_of_the_wrong_type_are_400(api: Client, path: str, body: Any) -> None:
    account = {"metadata": {"name": "odd"}}
    assert api.ask("POST", "/api/v1/namespaces/default/serviceaccounts", account).status in (201, 409)
    assert api.ask("POST", path, body).status == 400
