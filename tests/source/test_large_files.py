"""Large files stay at a server that can leave them out until they are needed; all else works as with all files."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import FileNotFetched, InvalidInput, Refused, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.objects.signers import Signer
from gitsync.ports import Credentials, Snapshot, SourceRevision
from gitsync.source import git as git_runner
from gitsync.source import mirror as mirror_module
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.signatures import verify_revision
from gitsync.source.snapshot import GitTree, SourceLimits
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git, ssh_key

ADA = Credentials(username="ada", password="right")
LARGE = random.Random(1).randbytes(3 << 20)
OTHER = random.Random(2).randbytes(3 << 20)
MANIFEST = "".join(f"line{number}: text\n" for number in range(100_000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as made:
        made.accepted = {"ada:right"}
        yield made


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path / "git")
    git(made.origin, "config", "uploadpack.allowFilter", "true")
    git(made.origin, "config", "http.receivepack", "true")
    made.commit({"images/large.bin": LARGE, "app/a.yaml": "a: 1"}, "first")
    return made


@pytest.fixture
def source(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path / "mirrors", Transport(("http",)))


def size(tmp_path: Path) -> int:
    """Return the bytes of all mirrors."""
    return sum(file.stat().st_size for file in (tmp_path / "mirrors").rglob("*") if file.is_file())


def mirror_of(tmp_path: Path) -> Path:
    (mirror,) = filter(Path.is_dir, (tmp_path / "mirrors").iterdir())
    return mirror


def newest(source: Repositories, branch: GitSource) -> Snapshot:
    return source.snapshot(branch, ADA, source.resolve(branch, ADA))


def app_in(server: GitServer, path: str = "app") -> GitSource:
    return GitSource(repo_url=server.url("origin.git"), path=path)


def test_large_files_outside_the_path_stay_at_the_server(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    branch = app_in(server)
    first = newest(source, branch)
    assert first.tree.read("app/a.yaml") == b"a: 1"
    second = repo.commit({"app/a.yaml": "a: 2"}, "second")
    assert newest(source, branch).tree.read("app/a.yaml") == b"a: 2"
    moved = repo.commit({"images/large.bin": None, "moved/large.bin": LARGE}, "moved")
    assert newest(source, branch).commit.id == moved
    assert size(tmp_path) < 100_000
    assert source.is_forward(branch, first.commit.id, moved)
    assert not source.is_forward(branch, moved, second)
    assert source.changed_paths(branch, first.commit.id, second) == {"app/a.yaml"}
    assert [commit.subject for commit in source.commits(branch, moved)] == ["moved", "second", "first"]
    config = (mirror_of(tmp_path) / "config").read_text()
    assert "promisor" not in config  # git must not fetch by itself
    assert not list(mirror_of(tmp_path).rglob("*.promisor"))


def test_a_mirror_without_large_files_is_repacked(
    tmp_path: Path, repo: GitRepo, source: Repositories, server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "_MANY_PACKS", 0)
    branch = app_in(server)
    newest(source, branch)
    repo.commit({"app/a.yaml": "a: 2"}, "second")
    newest(source, branch)
    source.repack()
    assert git(mirror_of(tmp_path), "count-objects", "-v").startswith("count: 0\n")
    assert size(tmp_path) < 100_000
    assert not list(mirror_of(tmp_path).rglob("*.promisor"))
    repo.commit({"app/a.yaml": "a: 3"}, "third")
    assert newest(source, branch).tree.read("app/a.yaml") == b"a: 3"
    assert newest(source, app_in(server, "images")).tree.read("images/large.bin") == LARGE


def test_a_large_file_that_was_removed_and_returns_is_no_failure(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    branch = app_in(server)
    newest(source, branch)
    repo.commit({"images/large.bin": None}, "removed")
    newest(source, branch)
    repo.commit({"images/large.bin": LARGE[:-10] + b"other text"}, "returned")
    assert newest(source, branch).commit.subject == "returned"
    assert newest(source, branch).tree.read("app/a.yaml") == b"a: 1"


def test_a_large_manifest_is_fetched_before_its_build_without_its_history(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    for version in range(4):
        repo.commit({"app/crds.yaml": random.Random(version).randbytes(2 << 20)}, f"version {version}")
    repo.commit({"app/crds.yaml": MANIFEST}, "last")
    assert newest(source, app_in(server)).tree.read("app/crds.yaml") == MANIFEST.encode()
    assert size(tmp_path) < 1 << 20
    packs = server.packs
    assert newest(source, app_in(server)).tree.read("app/crds.yaml") == MANIFEST.encode()
    assert server.packs == packs


def test_a_file_outside_the_path_is_fetched_when_it_is_read(
    server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    repo.commit({"base/crds.yaml": MANIFEST, "base/other.json": MANIFEST[:-1]})
    tree = newest(source, app_in(server)).tree
    packs = server.packs
    assert tree.read("base/crds.yaml") == MANIFEST.encode()
    assert tree.read("base/other.json") == MANIFEST[:-1].encode()  # manifests come together
    assert server.packs == packs + 1
    assert tree.read("images/large.bin") == LARGE


def test_a_file_that_the_server_does_not_send_is_no_damage(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    tree = newest(source, app_in(server)).tree
    server.failures = {" fetch": 503}
    with pytest.raises(SourceUnavailable, match="503"):
        tree.read("images/large.bin")
    assert not (mirror_of(tmp_path) / "gitsync-damaged").exists()
    server.failures = {}
    assert tree.read("images/large.bin") == LARGE


def test_a_reader_without_credentials_reports_what_it_lacks(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    snapshot = newest(source, app_in(server))
    with pytest.raises(FileNotFetched, match=r"images/large\.bin: the file is large") as caught:
        GitTree(snapshot.git_dir, snapshot.commit.id).read("images/large.bin")
    assert caught.value.git_dir == str(mirror_of(tmp_path))
    assert snapshot.fetch(caught.value)
    assert GitTree(snapshot.git_dir, snapshot.commit.id).read("images/large.bin") == LARGE


def test_a_list_of_files_that_cannot_be_read_is_no_damage(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    snapshot = newest(source, app_in(server))
    listed = mirror_of(tmp_path) / "gitsync-left-out"
    listed.unlink()
    listed.mkdir()  # unreadable also for root
    with pytest.raises(SourceUnavailable, match="the mirror cannot be read: Is a directory"):
        GitTree(snapshot.git_dir, snapshot.commit.id).read("images/large.bin")
    assert not (mirror_of(tmp_path) / "gitsync-damaged").exists()


def test_a_file_above_the_limit_is_refused_with_its_size(tmp_path: Path, server: GitServer, repo: GitRepo) -> None:
    limits = SourceLimits(file_bytes=2 << 20)
    source = Repositories(tmp_path / "mirrors", Transport(("http",), limits=limits))
    repo.commit({"app/large.yaml": LARGE})
    for _ in range(2):
        with pytest.raises(InvalidInput, match=rf"the file is too large: {len(LARGE)} bytes, the limit is {2 << 20}"):
            newest(source, app_in(server)).tree.read("app/large.yaml")


def test_a_revert_beside_a_large_file(tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories) -> None:
    branch = app_in(server)
    newest(source, branch)
    second = repo.commit({"app/a.yaml": "a: 2"}, "second")
    reverted = source.revert(branch, ADA, [second], author="Ada <ada@example.test>")
    assert git(repo.origin, "rev-parse", "main") == reverted.commit.id
    assert git(repo.origin, "show", "main:app/a.yaml") == "a: 1"
    assert "missing" not in git(repo.origin, "fsck", "--connectivity-only")
    assert newest(source, branch).tree.read("app/a.yaml") == b"a: 1"
    assert size(tmp_path) < 100_000


def test_a_revert_of_a_large_file(server: GitServer, repo: GitRepo, source: Repositories) -> None:
    branch = app_in(server)
    changed = repo.commit({"images/large.bin": OTHER, "app/a.yaml": "a: 2"}, "changed")
    removed = repo.commit({"images/large.bin": None}, "removed")
    newest(source, branch)
    head, preview = source.prepare_revert(branch, ADA, [removed, changed])
    assert head == removed
    result = source.revert(branch, ADA, [removed, changed], author="Ada")
    assert source.changed_paths(branch, preview, result.commit.id) == set()
    assert git(repo.origin, "rev-parse", "main:images/large.bin") == git(
        repo.work, "hash-object", "--stdin", stdin=LARGE
    )
    assert "missing" not in git(repo.origin, "fsck", "--connectivity-only")


@pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen, which signs the commits of this test, is not installed"
)
def test_signatures_of_a_range_beside_a_large_file(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    key, applied = ssh_key(tmp_path, "trusted"), git(repo.work, "rev-parse", "HEAD")
    git(repo.work, "config", "gpg.format", "ssh")
    git(repo.work, "config", "user.signingKey", f"{key}.pub")
    git(repo.work, "config", "commit.gpgSign", "true")
    repo.commit({"app/a.yaml": "a: 2"})
    signed = repo.commit({"app/a.yaml": "a: 3"})
    git(repo.work, "config", "commit.gpgSign", "false")
    unsigned = repo.commit({"app/a.yaml": "a: 4"})
    newest(source, app_in(server))
    trust, mirror = ((Signer(keys=(key.with_suffix(".pub").read_text(),)),),), str(mirror_of(tmp_path))
    verify_revision(SourceRevision(mirror, signed, since=applied), trust)
    with pytest.raises(Refused, match="it is not signed"):
        verify_revision(SourceRevision(mirror, unsigned, since=signed), trust)


OLDER = {
    "no filters": ("uploadpack.allowFilter", "false"),
    "other ones": ("uploadpackfilter.blob:limit.allow", "false"),
}


@pytest.mark.parametrize("setting", OLDER.values(), ids=OLDER)
def test_a_server_that_cannot_leave_out_files_sends_all(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories, setting: tuple[str, str]
) -> None:
    git(repo.origin, "config", *setting)
    assert newest(source, app_in(server)).tree.read("images/large.bin") == LARGE
    assert size(tmp_path) > len(LARGE)
    assert "missing" not in git(mirror_of(tmp_path), "fsck", "--connectivity-only")


def test_a_server_that_serves_no_file_by_its_id_sends_all(
    server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    server.is_old = True
    repo.commit({"app/crds.yaml": MANIFEST})
    assert newest(source, app_in(server)).tree.read("app/crds.yaml") == MANIFEST.encode()
    assert newest(source, app_in(server)).tree.read("images/large.bin") == LARGE


def test_a_failing_server_has_no_mirror_rebuilt(
    tmp_path: Path, server: GitServer, repo: GitRepo, source: Repositories
) -> None:
    newest(source, app_in(server))
    before = {file.name for file in mirror_of(tmp_path).rglob("*.pack")}
    repo.commit({"app/a.yaml": "a: 2"}, "second")
    server.failures = {" fetch": 503}
    with pytest.raises(SourceUnavailable, match="503"):
        newest(source, app_in(server))
    server.failures = {}
    assert newest(source, app_in(server)).tree.read("app/a.yaml") == b"a: 2"
    assert before <= {file.name for file in mirror_of(tmp_path).rglob("*.pack")}


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("2.39.3 (Apple Git-146)", False),
        ("2.39.5", True),
        ("2.44", False),
        ("2.45.0.rc1", True),
        ("2.25.1", False),
        ("3.0", True),
    ],
)
def test_git_that_could_fetch_by_itself_without_end_leaves_out_nothing(
    monkeypatch: pytest.MonkeyPatch, version: str, can: bool
) -> None:
    monkeypatch.setattr(git_runner, "run", lambda *arguments, **options: f"git version {version}\n".encode())
    git_runner.can_leave_out_files.cache_clear()
    assert git_runner.can_leave_out_files() is can
    git_runner.can_leave_out_files.cache_clear()


def test_the_version_of_git_is_read_without_gitpython() -> None:
    code = "import sys; from gitsync.source.git import can_leave_out_files as c; print(c(), 'git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in ("True False\n", "False False\n")
