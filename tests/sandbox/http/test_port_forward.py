"""Port forwarding by SPDY/3.1: a client of frames against a process, and kubectl where it is installed."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitsync.sandbox.http.port_forward import _DICTIONARY, Data, Frames, MalformedFrame, Opened, Ping, Reset
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client
from tests.waiting import until

ECHO = """
import os, socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer((os.environ["POD_IP"], 7000), Echo).serve_forever()
"""
IMAGES = {"example.com/echo": Image((sys.executable, "-c", ECHO))}
NAMESPACE = "/api/v1/namespaces/default"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
needs_loopback = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")


class SpdyClient:
    """The client's side of the frames."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        plain = len(headers).to_bytes(4)
        for pair in headers.items():
            plain += b"".join(len(part).to_bytes(4) + part.encode() for part in pair)
        block = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, stream.to_bytes(4) + bytes(6) + block)


def control(kind: int, content: bytes) -> bytes:
    return b"\x80\x03" + kind.to_bytes(2) + b"\0" + len(content).to_bytes(3) + content


def events(data: bytes, frames: Frames | None = None) -> list[Any]:
    return list((frames or Frames()).feed(data))


def test_frames_are_read_whatever_the_pieces_that_they_come_in() -> None:
    client = SpdyClient()
    sent = client.open(1, streamtype="error", port="80", requestID="0") + client.open(3, streamtype="data", Port="80")
    sent += Frames().data(3, b"hello") + Frames().data(3, is_last=True) + control(6, b"\0\0\0\7") + control(3, bytes(8))
    found = events(sent)
    assert found == [
        Opened(1, {"streamtype": "error", "port": "80", "requestid": "0"}),
        Opened(3, {"streamtype": "data", "port": "80"}),
        Data(3, b"hello", False),
        Data(3, b"", True),
        Ping(b"\0\0\0\7"),
        Reset(0),
    ]
    pieces = Frames()
    assert [event for at in range(len(sent)) for event in pieces.feed(sent[at : at + 1])] == found


def test_what_is_not_spdy_is_malformed_and_nothing_else() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        head = rng.choice((b"", b"\x80\x03\0\1\0\0\0\x20", b"\x80\x03\0\1\0\0\0\4", b"\x80\x02\0\1\0\0\0\0"))
        data = head + rng.randbytes(rng.randrange(60))
        try:
            events(data)
        except MalformedFrame:
            continue
    with pytest.raises(MalformedFrame, match="a frame of"):
        events(b"\0\0\0\1\0\xff\xff\xff")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(images=IMAGES) as made:
        api = Client(made)
        for name, image in (("echo", "example.com/echo:1"), ("simulated", "example.com/other:1")):
            spec = {"containers": [{"name": "main", "image": image, "ports": [{"containerPort": 7000}]}]}
            spec["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 7000}, "periodSeconds": 1}
            made_pod = api.ask("POST", f"{NAMESPACE}/pods", {"metadata": {"name": name}, "spec": spec})
            assert made_pod.status == 201, made_pod.body
        until(lambda: _phase(api, "echo") == _phase(api, "simulated") == "Running", 20)
        yield made


def _phase(api: Client, name: str) -> str:
    status = api.get(f"{NAMESPACE}/pods/{name}").json["status"]
    ready = [each["ready"] for each in status.get("containerStatuses") or ()]
    return str(status.get("phase")) if all(ready) and ready else ""


@contextmanager
def upgraded(sandbox: Sandbox, pod: str, **headers: str) -> Iterator[tuple[socket.socket, str]]:
    """Yield a connection after its request to forward ports, and the head of the answer."""
    host, _, port = sandbox.url.removeprefix("http://").partition(":")
    fields = {"Host": host, "Authorization": f"Bearer {sandbox.token}", "Content-Length": "0", **UPGRADE, **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"POST {NAMESPACE}/pods/{pod}/portforward HTTP/1.1\r\n{head}\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
            answer += byte
        yield connection, answer.decode()


def forwarded(connection: socket.socket, port: str, sent: bytes) -> tuple[bytes, str]:
    """Return what a port answers to bytes that are its whole input, and the text of the stream of errors."""
    client, server = SpdyClient(), Frames()
    asked = {"port": port, "requestID": "0"}
    connection.sendall(client.open(1, streamtype="error", **asked) + client.open(3, streamtype="data", **asked))
    connection.sendall(b"".join(server.data(3, sent[at : at + 60000]) for at in range(0, len(sent), 60000)))
    connection.sendall(server.data(3, is_last=True))
    ended: set[int] = set()
    content: dict[int, bytes] = {1: b"", 3: b""}
    frames = Frames()
    while ended != {1, 3}:
        received = connection.recv(1 << 16)
        assert received, "the connection ended early"
        for event in frames.feed(received):
            if isinstance(event, Data):
                content[event.stream] += event.content
                ended |= {event.stream} if event.is_last else set()
    return content[3], content[1].decode()


@needs_loopback
def test_bytes_reach_the_port_and_come_back(sandbox: Sandbox) -> None:
    sent = random.Random(1).randbytes(3 << 20)
    with upgraded(sandbox, "echo") as (connection, head):
        assert head.startswith("HTTP/1.1 101 Switching Protocols\r\n")
        assert "X-Stream-Protocol-Version: portforward.k8s.io" in head
        assert forwarded(connection, "7000", sent) == (sent, "")


@needs_loopback
@pytest.mark.parametrize(
    ("pod", "port", "problem"), [("echo", "1", "refused"), ("simulated", "7000", "its containers are simulated")]
)
def test_a_port_that_does_not_answer_is_explained(sandbox: Sandbox, pod: str, port: str, problem: str) -> None:
    with upgraded(sandbox, pod) as (connection, _):
        assert problem in forwarded(connection, port, b"")[1]


@needs_loopback
def test_other_protocols_are_refused_and_the_connection_ends(sandbox: Sandbox) -> None:
    with upgraded(sandbox, "echo", Upgrade="websocket") as (connection, head):
        assert head.startswith("HTTP/1.1 400 ")
        connection.settimeout(60)
        while connection.recv(1 << 16):
            pass
    with upgraded(sandbox, "gone") as (_, head):
        assert head.startswith("HTTP/1.1 404 ")


@needs_loopback
def test_a_stream_without_a_port_is_refused_and_junk_cuts_the_connection(sandbox: Sandbox) -> None:
    with upgraded(sandbox, "echo") as (connection, _):
        connection.sendall(SpdyClient().open(1, streamtype="error", port="http"))
        assert connection.recv(1 << 16)[:4] == b"\x80\x03\0\3"
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(1 << 16) == b""


@needs_loopback
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_forwards_a_port(sandbox: Sandbox, tmp_path: Path) -> None:
    config = sandbox.kubeconfig(tmp_path / "config")
    command = ["kubectl", "--kubeconfig", str(config), "port-forward", "pod/echo", ":7000", "--address", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split()[0])
        for size in (1, 1 << 20):
            sent = random.Random(size).randbytes(size)
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(sent)
                received = b""
                while len(received) < size:
                    received += connection.recv(1 << 16)
                assert received == sent
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
