"""Git servers that want a sign-in, or hardly answer, over real HTTP."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.source.git import can_leave_out_files
from gitsync.source.landlock import Concealed, Confinement, landlock_version
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import GitTree, SourceLimits
from gitsync.source.validation import PlainHosts
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.ssh_server import ssh_server

ADA = Credentials(username="ada", password="right")
EVE = Credentials(username="eve", password="guessed")
ANONYMOUS = Credentials()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def repositories(tmp_path: Path, seconds: float = 30.0) -> Repositories:
    return Repositories(tmp_path / "mirrors", Transport(("http",), limits=SourceLimits(seconds=seconds)))


@pytest.mark.parametrize("other", [ANONYMOUS, EVE], ids=["anonymous", "wrong"])
def test_what_one_application_may_read_is_not_shown_to_another_that_may_not(
    tmp_path: Path, server: GitServer, repo: GitRepo, other: Credentials
) -> None:
    commit = repo.commit({"secret.yaml": "a: 1"})
    server.accepted = {"ada:right"}
    branch, fixed = (GitSource(repo_url=server.url("origin.git"), revision=name) for name in ("main", commit))
    source = repositories(tmp_path)
    assert source.resolve(branch, ADA) == commit
    source.snapshot(branch, ADA, commit)
    with pytest.raises(SourceUnavailable, match="rejected the credentials"):
        source.resolve(branch, other, max_age=3600)
    with pytest.raises(SourceUnavailable, match="rejected the credentials"):
        source.snapshot(fixed, other, commit)
    assert source.snapshot(branch, ADA, commit).commit.id == commit


def test_the_same_credentials_share_a_poll_and_others_that_are_let_in_share_the_files(
    tmp_path: Path, server: GitServer, repo: GitRepo
) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    server.accepted = {"ada:right", "eve:guessed"}
    source, branch = repositories(tmp_path), GitSource(repo_url=server.url("origin.git"))
    for who in (ADA, ADA, EVE, EVE):
        assert source.resolve(branch, who, max_age=3600) == commit
        source.snapshot(branch, who, commit)
    assert (server.listings, server.packs) == (3, 1)  # one poll for each, and one fetch, which lists too


def test_after_a_start_what_was_read_before_can_be_read_while_the_server_is_away(tmp_path: Path, repo: GitRepo) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    with GitServer(tmp_path / "git") as server:
        branch = GitSource(repo_url=server.url("origin.git"))
        source = repositories(tmp_path)
        source.resolve(branch, ADA)
        source.snapshot(branch, ADA, commit)
    again = repositories(tmp_path)
    assert again.snapshot(branch, ADA, commit).commit.id == commit
    with pytest.raises(SourceUnavailable):
        again.snapshot(branch, EVE, commit)
    kept = b"".join(file.read_bytes() for file in (tmp_path / "mirrors").rglob("gitsync-*"))
    assert b"right" not in kept


def objects(mirror: Path) -> dict[str, list[Path]]:
    """Return the loose objects of a mirror by their type."""
    found: dict[str, list[Path]] = {"commit": [], "tree": [], "blob": []}
    for file in sorted(mirror.glob("objects/??/*")):
        found[git(mirror, "cat-file", "-t", file.parent.name + file.name)].append(file)
    return found


@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
@pytest.mark.parametrize("seed", range(2))
def test_a_mirror_with_flipped_bits_is_made_anew_beside_it_and_swapped(
    tmp_path: Path, server: GitServer, repo: GitRepo, kind: str, seed: int
) -> None:
    first = repo.commit({f"app/{name}.yaml": f"a: {name * 500}" for name in "abc"})
    source, branch = repositories(tmp_path), GitSource(repo_url=server.url("origin.git"))
    source.snapshot(branch, ADA, source.resolve(branch, ADA)).tree.read("app/a.yaml")
    (mirror,) = filter(Path.is_dir, (tmp_path / "mirrors").iterdir())
    chance = random.Random(seed)
    for file in objects(mirror)[kind]:
        content = bytearray(file.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.chmod(0o600)
        file.write_bytes(content)

    def read(source: Repositories) -> list[bytes]:
        tree = source.snapshot(branch, ADA, first).tree
        return [tree.read(f"app/{name}.yaml") for name in "abc"]

    wanted = [f"a: {name * 500}".encode() for name in "abc"]
    again = repositories(tmp_path)  # what was read before a restart is in no memory
    for _ in range(2):
        with suppress(SourceUnavailable):
            assert read(again) == wanted
    assert read(again) == wanted
    assert [one.name for one in (tmp_path / "mirrors").iterdir() if one.is_dir()] == [mirror.name]


def test_a_damaged_mirror_stays_while_the_server_is_away(tmp_path: Path, repo: GitRepo) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    with GitServer(tmp_path / "git") as server:
        branch = GitSource(repo_url=server.url("origin.git"))
        source = repositories(tmp_path)
        source.snapshot(branch, ADA, source.resolve(branch, ADA))
    (mirror,) = filter(Path.is_dir, (tmp_path / "mirrors").iterdir())
    (mirror / "gitsync-damaged").touch()
    with pytest.raises(SourceUnavailable, match="refused or did not answer"):
        source.snapshot(branch, ADA, commit)
    assert git(mirror, "cat-file", "-t", commit) == "commit"


def test_a_repository_that_is_not_ours_is_never_marked(tmp_path: Path, repo: GitRepo) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    (blob,) = objects(repo.work / ".git")["blob"]
    blob.chmod(0o600)
    blob.write_bytes(b"broken")
    with pytest.raises(SourceUnavailable, match="damaged"):
        GitTree(repo.work / ".git", commit).read("a.yaml")
    assert not list((repo.work / ".git").glob("gitsync-*"))


def test_a_server_that_trickles_is_given_up_at_the_deadline_and_others_go_on(
    tmp_path: Path, server: GitServer, repo: GitRepo
) -> None:
    first = repo.commit({"a.yaml": "a: 1"})
    source, branch = repositories(tmp_path, seconds=1.0), GitSource(repo_url=server.url("origin.git"))
    source.snapshot(branch, ANONYMOUS, source.resolve(branch, ANONYMOUS))
    server.trickle = 0.2
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match="took longer than 1 s"):
        source.resolve(branch, ANONYMOUS)
    assert time.monotonic() - began < 60
    assert source.snapshot(branch, ANONYMOUS, first).commit.id == first, "the last good one can be read"
    server.trickle = 0.0
    second = repo.commit({"a.yaml": "a: 2"})
    assert source.resolve(branch, ANONYMOUS) == second


def test_applications_share_a_failed_poll_unless_their_credentials_differ(
    tmp_path: Path, server: GitServer, repo: GitRepo
) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    server.accepted = {"eve:guessed"}
    source, branch = repositories(tmp_path), GitSource(repo_url=server.url("origin.git"))
    for _ in range(40):
        with pytest.raises(SourceUnavailable, match="rejected the credentials"):
            source.resolve(branch, ADA, max_age=90)
    assert server.requests <= 2
    assert source.resolve(branch, EVE, max_age=90) == commit
    server.accepted.add("ada:right")
    assert source.resolve(branch, ADA) == commit, "a request of a user polls at once"
    assert source.resolve(branch, ADA, max_age=90) == commit


def test_urls_of_one_repository_share_a_mirror_and_its_polls(tmp_path: Path, server: GitServer, repo: GitRepo) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    source, url = repositories(tmp_path), server.url("origin.git")
    named = url.replace("127.0.0.1", "localhost")
    for spelling in (
        named,
        f"{named}/",
        named.replace("http:", "HTTP:"),
        named.replace("localhost", "LocalHost"),
        named.replace("localhost", "localhost."),
    ):
        branch = GitSource(repo_url=spelling)
        assert source.resolve(branch, ANONYMOUS, max_age=3600) == commit, spelling
        source.snapshot(branch, ANONYMOUS, commit)
    assert len([path for path in (tmp_path / "mirrors").iterdir() if path.is_dir()]) == 1
    assert server.packs == 1


def test_a_repository_with_sha_256_is_read_and_reverted(tmp_path: Path, server: GitServer) -> None:
    folder = tmp_path / "git"
    folder.mkdir()
    for name, bare in (("origin.git", ("--bare",)), ("work", ())):
        git(folder, "init", "-q", "-b", "main", "--object-format=sha256", *bare, name)
    git(folder / "origin.git", "config", "http.receivepack", "true")
    work = folder / "work"
    for content in ("1", "2"):
        (work / "a.yaml").write_text(content)
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", content)
    git(work, "push", "-q", str(folder / "origin.git"), "HEAD:main")
    source = Repositories(tmp_path / "mirrors", Transport(("http",)))
    branch = GitSource(repo_url=server.url("origin.git"))
    commit = source.resolve(branch, ANONYMOUS)
    assert len(commit) == 64
    for revision in ("main", commit):
        fixed = GitSource(repo_url=branch.repo_url, revision=revision)
        assert source.snapshot(fixed, ANONYMOUS, commit).tree.read("a.yaml") == b"2"
    assert source.is_forward(branch, git(work, "rev-parse", "HEAD^"), commit)
    assert source.changed_paths(branch, git(work, "rev-parse", "HEAD^"), commit) == {"a.yaml"}
    reverted = source.revert(branch, ANONYMOUS, [commit], author="Ada").commit.id
    assert source.snapshot(branch, ANONYMOUS, reverted).tree.read("a.yaml") == b"1"


def test_a_repository_may_change_to_sha_256(tmp_path: Path, server: GitServer, repo: GitRepo) -> None:
    repo.commit({"a.yaml": "a: 1"})
    branch = GitSource(repo_url=server.url("origin.git"))
    source = Repositories(tmp_path / "mirrors", Transport(("http",)))
    source.snapshot(branch, ANONYMOUS, source.resolve(branch, ANONYMOUS))
    shutil.rmtree(repo.origin)
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", str(repo.origin))
    work = tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(work))
    (work / "a.yaml").write_text("a: 2")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "two")
    git(work, "push", "-q", str(repo.origin), "HEAD:main")
    commit = source.resolve(branch, ANONYMOUS)
    assert source.snapshot(branch, ANONYMOUS, commit).tree.read("a.yaml") == b"a: 2"


@pytest.mark.parametrize("spelling", ["http_proxy", "HTTP_PROXY"])
def test_the_proxy_of_the_environment_is_used_in_both_spellings(
    tmp_path: Path, server: GitServer, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    monkeypatch.setenv(spelling, server.url(""))  # a request to a proxy names the complete URL, and this server sees it
    source, branch = repositories(tmp_path), GitSource(repo_url="http://git.invalid/origin.git")
    assert source.resolve(branch, ANONYMOUS) == commit
    monkeypatch.setenv(spelling.replace("http", "no").replace("HTTP", "NO"), "git.invalid")
    with pytest.raises(SourceUnavailable, match="resolve host"):
        source.resolve(branch, ANONYMOUS)


def test_a_named_host_is_read_over_http_without_credentials(tmp_path: Path, server: GitServer, repo: GitRepo) -> None:
    commit = repo.commit({"a.yaml": "a: 1"})
    host = server.url("").removeprefix("http://").strip("/")
    branch = GitSource(repo_url=server.url("origin.git"))
    for plain, credentials in ((PlainHosts.parse(host, ""), ANONYMOUS), (PlainHosts.parse("", host), ADA)):
        source = Repositories(tmp_path / "mirrors", Transport(plain=plain))
        assert source.resolve(branch, credentials) == commit
        source.snapshot(branch, credentials, commit)
        source.close()
    requests = server.requests
    source = Repositories(tmp_path / "mirrors", Transport(plain=PlainHosts.parse(host, "")))
    for url in (branch.repo_url, branch.repo_url.replace("http", "HTTP", 1)):
        with pytest.raises(InvalidInput, match=r"credentials are not sent to 127\.0\.0\.1 without TLS"):
            source.resolve(GitSource(repo_url=url), ADA)
    assert server.requests == requests


TAKEN_OVER = """#!/bin/sh
# Called as git --git-dir FOLDER …, does what a git would that a pack has taken over, and then its work.
[ "$1" != --git-dir ] || {{ cat {secret} > "$2/stolen-$$"; echo x > {folder}/planted-$$; }}
exec {git} "$@"
"""


@pytest.fixture(params=["unpacked", "fetched by git", "own certificates", "ssh"])
def way_to_server(request: pytest.FixtureRequest, tmp_path: Path, repo: GitRepo) -> Iterator[tuple[str, Credentials]]:
    """Yield the URL of the repository on a real server, and the credentials of an Application that reads it."""
    if request.param == "ssh":
        with ssh_server(tmp_path / "sshd") as sshd:
            yield sshd.url(repo.origin), Credentials(ssh_key=sshd.key, known_hosts=sshd.known_hosts)
        return
    certificate = make_certificate() if request.param == "own certificates" else None
    with GitServer(tmp_path / "git", certificate) as made:
        made.is_old = request.param != "unpacked"
        yield made.url("origin.git"), Credentials(ca=certificate.authority if certificate else "")


@pytest.mark.skipif(landlock_version() < 4, reason="the kernel has no Landlock that restricts TCP")
def test_a_git_that_a_pack_takes_over_reads_no_secret_and_changes_its_mirror_only(
    tmp_path: Path, way_to_server: tuple[str, Credentials], repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, credentials = way_to_server
    data = tmp_path / "data"
    mirrors = data / "mirrors"
    mirrors.mkdir(parents=True)
    (data / "secret").write_text("canary")
    program = tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text(TAKEN_OVER.format(secret=data / "secret", folder=data, git=shutil.which("git")))
    program.chmod(0o755)
    confinement = Confinement(Concealed((data,), (mirrors,)))
    source = Repositories(mirrors, Transport(("http", "https", "ssh"), confinement=confinement))
    branch = GitSource(repo_url=url)
    can_leave_out_files()  # asks the real git for its version, which reads nothing of a server

    for number in range(2):
        repo.commit({"a.yaml": f"a: {number}"})
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
            commit = source.resolve(branch, credentials)
            assert source.snapshot(branch, credentials, commit).tree.read("a.yaml") == f"a: {number}".encode()
    source.close()

    stolen = list(mirrors.glob("*/stolen-*"))
    assert stolen
    assert not any(file.read_text() for file in stolen)
    assert not list(data.glob("planted-*"))
