"""Polls and fetches over kept connections: few requests, git's answers, and no answer of a server that does harm."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitsync.errors import SourceThrottled, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.connections import GitConnections, GitRequest
from gitsync.source.git import GitFailed, GitTimedOut, OutputTooLarge
from gitsync.source.protocol import GitAccess, NotSpoken, ProtocolClient, ReceivedPack
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

ANONYMOUS = Credentials()
ACCESS = GitAccess("https://git.example.com/shop.git")
COMMIT = "1" * 40
OTHER = "2" * 40


def line(text: str | bytes) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return f"{len(content) + 4:04x}".encode() + content


ADVERTISED = line("version 2\n") + line("ls-refs\n") + line("fetch\n") + b"0000"
LISTED = line(f"{COMMIT} refs/heads/main\n") + line(f"{OTHER} refs/tags/v1 peeled:{COMMIT}\n") + b"0000"
PACK = b"PACK\0\0\0\x02\0\0\0\x01" + bytes(30)
FETCHED = (
    *(line("acknowledgments\n"), line(f"ACK {OTHER}\n"), line("ready\n"), b"0001"),
    *(line("packfile\n"), line(b"\x02counting\n"), line(b"\x01" + PACK[:20]), line(b"\x01" + PACK[20:]), b"0000"),
)


class Answer(NamedTuple):
    """What a server answers."""

    status: int
    headers: Message
    body: Any


class Recorded:
    """Connections to a server that answers each request with the next of these bytes."""

    def __init__(self, *bodies: bytes, status: int = 200) -> None:
        self.bodies = list(bodies)
        self.status = status
        self.requests: list[GitRequest] = []

    @contextlib.contextmanager
    def answer(self, request: GitRequest, seconds: float) -> Iterator[Answer]:
        self.requests.append(request)
        headers = Message()
        headers["Content-Type"] = request.headers["Accept"]
        body = self.bodies.pop(0) if self.bodies else b""
        yield Answer(self.status, headers, io.BufferedReader(cast("Any", io.BytesIO(body))))


def client(*bodies: bytes, status: int = 200) -> tuple[ProtocolClient, Recorded]:
    recorded = Recorded(*bodies, status=status)
    return ProtocolClient(cast("GitConnections", recorded)), recorded


def test_refs_and_what_annotated_tags_name_are_listed() -> None:
    protocol, recorded = client(ADVERTISED, LISTED, LISTED)
    refs = {"refs/heads/main": COMMIT, "refs/tags/v1": OTHER, "refs/tags/v1^{}": COMMIT}
    assert protocol.list_refs(ACCESS, 5, 1000) == refs
    assert protocol.list_refs(ACCESS, 5, 1000) == refs
    assert [request.body is None for request in recorded.requests] == [True, False, False], "asked once what it can"


def test_a_pack_is_joined_from_its_parts_without_messages() -> None:
    protocol, recorded = client(ADVERTISED, b"".join(FETCHED))
    pack = protocol.fetch(ACCESS, COMMIT, [OTHER], 5, 1000, thin=True)
    assert (pack.content, pack.is_small) == (PACK, True)
    body = recorded.requests[-1].body or b""
    assert all(line(text) in body for text in ("thin-pack\n", f"want {COMMIT}\n", f"have {OTHER}\n"))


@pytest.mark.parametrize(
    "answer",
    [
        line("acknowledgments\n") + line("NAK\n") + b"0000",
        line("acknowledgments\n") + line("ready\n") + b"0001" + line("shallow-info\n"),
        line("ERR upload-pack: not our ref\n"),
        b"".join(FETCHED[:-2]) + line(b"\x03out of memory") + b"0000",
        b"".join(FETCHED)[:-20],
        b"".join(FETCHED) + b"0000",
        b"zzzz",
        b"",
    ],
    ids=["no common commit", "shallow", "error", "error within", "cut", "more", "no packet", "empty"],
)
def test_other_answers_are_left_to_git(answer: bytes) -> None:
    protocol, _ = client(ADVERTISED, answer)
    with pytest.raises(NotSpoken):
        protocol.fetch(ACCESS, COMMIT, [OTHER], 5, 1000, thin=True)


def test_a_large_pack_is_left_to_git_and_a_long_list_refused() -> None:
    protocol, _ = client(ADVERTISED, b"".join(FETCHED), ADVERTISED, LISTED)
    with pytest.raises(NotSpoken):
        protocol.fetch(ACCESS, COMMIT, [OTHER], 5, len(PACK) - 1, thin=True)
    with pytest.raises(OutputTooLarge):
        protocol.list_refs(ACCESS, 5, 10)


def mutated(valid: bytes) -> st.SearchStrategy[bytes]:
    """Return valid answers with a part that is replaced, removed or added."""
    places = st.tuples(st.integers(0, len(valid)), st.integers(0, 12), st.binary(max_size=12))
    return places.map(lambda edit: valid[: edit[0]] + edit[2] + valid[edit[0] + edit[1] :])


# 10,000 answers are tried before a release: GITSYNC_FUZZ=10000
@settings(max_examples=int(os.environ.get("GITSYNC_FUZZ", "300")), deadline=None)
@given(
    advertised=mutated(ADVERTISED) | st.just(ADVERTISED),
    listed=mutated(LISTED) | st.binary(max_size=200),
    fetched=mutated(b"".join(FETCHED)) | st.binary(max_size=200),
)
@example(advertised=ADVERTISED, listed=line("x" * 60_000) * 3, fetched=line("ready\n") * 20_000)
def test_no_answer_of_a_server_ends_in_another_error(advertised: bytes, listed: bytes, fetched: bytes) -> None:
    known = (NotSpoken, GitFailed, GitTimedOut, OutputTooLarge)
    protocol, _ = client(advertised, listed)
    with contextlib.suppress(*known):
        refs = protocol.list_refs(ACCESS, 5, 100_000)
        assert all(name.startswith("refs/") and set(id) <= set("0123456789abcdef") for name, id in refs.items())
    protocol, _ = client(advertised, fetched)
    with contextlib.suppress(*known):
        assert protocol.fetch(ACCESS, COMMIT, [OTHER], 5, 100_000, thin=False).content.startswith(b"PACK")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def read(source: Repositories, branch: GitSource) -> str:
    commit = source.resolve(branch, ANONYMOUS)
    return source.snapshot(branch, ANONYMOUS, commit).tree.read("a.yaml").decode()


@pytest.fixture
def followed(tmp_path: Path, server: GitServer, repo: GitRepo) -> Iterator[tuple[Repositories, GitSource]]:
    """A branch whose first commit was read."""
    repo.commit({"a.yaml": "a: 1"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",), limits=SourceLimits(seconds=20)))
    branch = GitSource(repo_url=server.url("origin.git"))
    assert read(repositories, branch) == "a: 1"
    yield repositories, branch
    repositories.close()


def test_a_poll_is_one_request_and_a_commit_two(
    followed: tuple[Repositories, GitSource], server: GitServer, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories, branch = followed
    counts = (server.requests, server.connections)
    monkeypatch.setattr("gitsync.source.remote.Remote._run", None)  # no git talks to the server
    for _ in range(5):
        repositories.resolve(branch, ANONYMOUS)
    assert (server.requests, server.connections) == (counts[0] + 5, counts[1])
    for number in (2, 3):
        repo.commit({"a.yaml": f"a: {number}"})
        assert read(repositories, branch) == f"a: {number}"
    assert (server.requests, server.connections) == (counts[0] + 9, counts[1])


def test_a_rewritten_branch_and_an_older_server_are_read_by_git(
    followed: tuple[Repositories, GitSource], server: GitServer, repo: GitRepo
) -> None:
    repositories, branch = followed
    git(repo.work, "checkout", "-q", "--orphan", "other")
    repo.commit({"a.yaml": "a: orphan"}, push=False)
    git(repo.work, "push", "-q", "-f", "origin", "HEAD:main")
    assert read(repositories, branch) == "a: orphan"
    server.is_old = True
    repo.commit({"a.yaml": "a: old"})
    assert read(repositories, branch) == "a: old"
    repo.commit({"a.yaml": "a: older"})
    assert read(repositories, branch) == "a: older"


def test_a_commit_of_many_files_is_kept_as_one_pack(
    followed: tuple[Repositories, GitSource], repo: GitRepo, tmp_path: Path
) -> None:
    repositories, branch = followed
    packs = len(list(tmp_path.glob("mirrors/*/objects/pack/*.pack")))
    repo.commit({"a.yaml": "a: many", **{f"more/{number}.yaml": f"a: {number}" for number in range(120)}})
    assert read(repositories, branch) == "a: many"
    assert len(list(tmp_path.glob("mirrors/*/objects/pack/*.pack"))) == packs + 1


def test_a_pack_without_all_objects_leaves_nothing(
    followed: tuple[Repositories, GitSource], repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories, branch = followed
    commit = repo.commit({"a.yaml": "a: partial"})
    # the commit alone: neither its folder nor its file
    digest = git(repo.work, "pack-objects", "-q", str(tmp_path / "part"), stdin=f"{commit}\n".encode())
    part = ReceivedPack((tmp_path / f"part-{digest}.pack").read_bytes())
    monkeypatch.setattr(ProtocolClient, "fetch", lambda *_, **__: part)
    assert read(repositories, branch) == "a: partial", "git fetches what the server did not send"


def test_a_closed_connection_is_opened_again(followed: tuple[Repositories, GitSource], server: GitServer) -> None:
    repositories, branch = followed
    opened = server.connections
    for connection in (idle.connection for idle in repositories.transport.connections._idle):
        connection.sock.shutdown(socket.SHUT_WR)  # the server ends its side too
    repositories.resolve(branch, ANONYMOUS)
    assert server.connections == opened + 1


def test_a_server_says_how_long_to_wait(followed: tuple[Repositories, GitSource], server: GitServer) -> None:
    repositories, branch = followed
    server.failures[""] = 429
    server.retry_after = "120"
    with pytest.raises(SourceThrottled) as caught:
        repositories.resolve(branch, ANONYMOUS)
    assert caught.value.retry_after == 120.0


def test_a_server_tells_git_how_long_to_wait(
    followed: tuple[Repositories, GitSource], server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git prints no header of an answer."""
    repositories, branch = followed

    def not_spoken(*_: object) -> None:
        raise NotSpoken("the first version of the protocol")

    monkeypatch.setattr(ProtocolClient, "list_refs", not_spoken)
    server.failures[""] = 429
    server.retry_after = "120"
    with pytest.raises(SourceThrottled) as caught:
        repositories.resolve(branch, ANONYMOUS)
    assert caught.value.retry_after == 120.0


def test_headers_that_arrive_byte_by_byte_end_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                while not ended.wait(0.05):
                    connection.sendall(b"H")

        thread = threading.Thread(target=trickle)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(TimeoutError), GitConnections().answer(GitRequest(url, {}), 0.3):
            pass
        ended.set()
        thread.join()


def test_an_answer_that_is_not_read_leaves_no_open_socket() -> None:
    """The server ends the connection with its answer (HTTP/1.0), so that only the answer has the socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent = threading.Thread(target=_refuse, args=(listener,), daemon=True)
        sent.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/info/refs"
        with GitConnections().answer(GitRequest(url, {}), 60) as answer:
            assert answer.status == 401
            assert not answer.body.closed
        with pytest.raises(ValueError, match="closed"):
            answer.body.read()
        sent.join(60)


def _refuse(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    with peer:
        peer.recv(4096)
        peer.sendall(b"HTTP/1.0 401 Unauthorized\r\n\r\n" + b"x" * 1000)


def test_a_server_that_refuses_connections_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",)))
    with pytest.raises(SourceUnavailable, match="Connection refused"):
        repositories.resolve(GitSource(repo_url=f"http://127.0.0.1:{port}/origin.git"), ANONYMOUS)
