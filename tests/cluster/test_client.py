"""Requests are counted by verb, resource and code, whatever the objects are called."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
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


OPENING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"b":2}'


class CannedServer:
    """Answers each request of a connection with the next of these parts; None closes the connection."""

    def __init__(self, answers: Sequence[Sequence[bytes | None]]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answers = iter(answers)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            self.connections += 1
            with connection:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while request := connection.recv(1 << 16):
            self.requests.append(request)
            for part in next(self._answers):
                if part is None:
                    return
                connection.sendall(part)


def client_of(server: CannedServer, folder: Path) -> Client:
    config = folder / "canned"
    config.write_text(
        f"{{clusters: [{{name: a, cluster: {{server: '{server.url}/prefix'}}}}],"
        " users: [{name: a, user: {token: t}}],"
        " contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}"
    )
    return Client(Connection(str(config), seconds=10))


@pytest.fixture
def canned(request: pytest.FixtureRequest) -> Iterator[CannedServer]:
    server = CannedServer([[OPENING], *request.param, [LAST]])
    yield server
    server.close()


WHOLE = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'
CLOSING = WHOLE.replace(b"OK", b"OK\r\nConnection: close")
ENDLESS = b'HTTP/1.1 200 OK\r\n\r\n{"a":1}'
CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"'
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


@pytest.mark.parametrize(
    ("canned", "connections"),
    [
        pytest.param([[WHOLE]], 1, id="whole"),
        pytest.param([[WHOLE[:20], WHOLE[20:40], WHOLE[40:]]], 1, id="in parts"),
        pytest.param([[CHUNKED, b"\r\n3\r\n:1}\r\n0\r\n\r\n"]], 1, id="chunked"),
        pytest.param([[HINT, WHOLE]], 1, id="after a hint"),
        pytest.param([[CLOSING, None]], 2, id="with the end of the connection"),
        pytest.param([[ENDLESS, None]], 2, id="without a length"),
    ],
    indirect=["canned"],
)
def test_an_answer_on_an_open_connection_is_read(canned: CannedServer, tmp_path: Path, connections: int) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    assert client.get("/a", {"limit": "1"}, user="jane") == {"a": 1}
    assert client.get("/b") == {"b": 2}
    assert canned.connections == connections
    client.close()
    sent = canned.requests[1].split(b"\r\n")
    assert sent[0] == b"GET /prefix/a?limit=1 HTTP/1.1"
    assert f"Host: {canned.url[7:]}".encode() in sent
    assert {b"authorization: Bearer t", b"Impersonate-User: jane", b"Accept: application/json"} <= set(sent)


@pytest.mark.parametrize(
    ("canned", "problem"),
    [
        pytest.param([[WHOLE[:-1], None]], "closed the connection without a whole answer", id="cut"),
        pytest.param([[CHUNKED, None]], "closed the connection without a whole answer", id="cut in a chunk"),
        pytest.param([[HINT, None]], "closed the connection without a whole answer", id="a hint only"),
        # what follows would be taken for the answer to the next request
        pytest.param([[WHOLE + WHOLE]], "the answer is not valid HTTP", id="two"),
        pytest.param([[b"SSH-2.0-x\r\n\r\n"]], "the answer is not valid HTTP", id="of another protocol"),
    ],
    indirect=["canned"],
)
def test_an_answer_that_is_cut_on_an_open_connection_fails(canned: CannedServer, tmp_path: Path, problem: str) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    with pytest.raises(ClusterUnavailable, match=f"GET /a was not answered: .*{problem}"):
        client.get("/a")
    assert client.get("/b") == {"b": 2}
    assert canned.connections == 2
    client.close()


@pytest.mark.parametrize("canned", [[[None]]], indirect=True)
def test_a_read_on_an_open_connection_that_has_ended_is_sent_again(canned: CannedServer, tmp_path: Path) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    assert client.get("/b") == {"b": 2}
    assert canned.connections == 2
    client.close()


@pytest.mark.parametrize("canned", [[[None]]], indirect=True)
def test_a_write_on_an_open_connection_that_has_ended_is_not_sent_again(canned: CannedServer, tmp_path: Path) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    with pytest.raises(ClusterUnavailable, match="closed the connection without a whole answer"):
        client.send("PUT", "/a", {})
    assert client.get("/b") == {"b": 2}
    assert len(canned.requests) == 3
    client.close()


@pytest.mark.parametrize("canned", [[]], indirect=True)
def test_a_line_break_never_becomes_another_header(canned: CannedServer, tmp_path: Path) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    with pytest.raises(ValueError, match=r"control character in the headers of GET '/b'$"):
        client.get("/b", user="jane\r\nImpersonate-Group: system:masters")
    assert client.get("/b") == {"b": 2}
    client.close()
    assert len(canned.requests) == 2


@pytest.mark.parametrize(
    "canned", [[[b"HTTP/1.1 429 x\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n"]]], indirect=True
)
def test_a_refusal_on_an_open_connection_says_when_to_try_again(canned: CannedServer, tmp_path: Path) -> None:
    client = client_of(canned, tmp_path)
    assert client.get("/open") == {}
    with pytest.raises(ClusterUnavailable) as failed:
        client.get("/a")
    assert failed.value.retry_after == 7.0
    assert client.get("/b") == {"b": 2}
    assert canned.connections == 1
    client.close()


def test_close_ends_idle_connections_at_once(client: Client) -> None:
    client.get("/api/v1/namespaces/default")
    assert client._pool is not None
    (connection,) = filter(None, client._pool.connections.pool.queue)
    client.close()
    assert connection.is_closed
    assert client.get("/api/v1/namespaces/default")["kind"] == "Namespace", "the next request opens another one"
