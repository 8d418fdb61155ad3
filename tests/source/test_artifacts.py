"""Charts and OCI artifacts as commits, and archives that are not taken."""

from __future__ import annotations

import contextlib
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, MissingRevision, Refused, SourceDenied, SourceUnavailable
from gitsync.integrations.registry import digest_of
from gitsync.objects.application import GitSource
from gitsync.objects.tree import Entry
from gitsync.ports import Credentials
from gitsync.ports.source import PulledArtifact
from gitsync.source.artifacts import archive_files
from gitsync.source.object_reader import CORRUPT
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import PlainHosts
from tests.fakes.artifacts import TIME, FakeArtifacts, chart_archive, file_entry, packed, tar_of

ANONYMOUS = Credentials()
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"


def chart(revision: str, repository: str = "https://charts.example.com/stable") -> GitSource:
    return GitSource.model_validate({"repoURL": repository, "chart": "web", "revision": revision})


@pytest.fixture
def servers() -> FakeArtifacts:
    return FakeArtifacts({version: chart_archive(version) for version in ("1.0.0", "1.2.0", "2.0.0")})


@pytest.fixture
def repositories(tmp_path: Path, servers: FakeArtifacts) -> Iterator[Repositories]:
    made = Repositories(tmp_path / "mirrors", artifacts=servers)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("revision", "version"),
    [("1.0.0", "1.0.0"), ("^1", "1.2.0"), ("*", "2.0.0"), (">=1 <1.1", "1.0.0")],
)
def test_a_version_or_range_names_a_commit_with_its_files(
    repositories: Repositories, revision: str, version: str
) -> None:
    source = chart(revision)
    commit = repositories.resolve(source, ANONYMOUS)
    snapshot = repositories.snapshot(source, ANONYMOUS, commit)
    assert snapshot.commit.subject == f"web {version} {digest_of(chart_archive(version))}"
    assert snapshot.commit.time is not None
    assert snapshot.commit.time.timestamp() == TIME
    assert snapshot.tree.names("") == ("Chart.yaml", "values.yaml")
    assert f"version: {version}\n".encode() in snapshot.tree.read("Chart.yaml")


def test_a_digest_names_its_commit(repositories: Repositories, servers: FakeArtifacts) -> None:
    servers.lists_digests = False
    source = GitSource(repo_url="oci://registry.example.com/charts/web", revision=digest_of(servers.archives["1.2.0"]))
    assert repositories.resolve(source, ANONYMOUS) == repositories.resolve(
        source.model_copy(update={"revision": "1.2.0"}), ANONYMOUS
    )


def test_an_unchanged_digest_is_not_pulled_again(repositories: Repositories, servers: FakeArtifacts) -> None:
    commits = {repositories.resolve(chart(revision), ANONYMOUS) for revision in ("1.2.0", "^1", "^1.1", "1.2.0")}
    assert len(commits) == 1
    assert servers.pulls == ["1.2.0"]


def test_a_recent_answer_is_used_again(repositories: Repositories, servers: FakeArtifacts) -> None:
    first = repositories.resolve(chart("*"), ANONYMOUS)
    requests = len(servers.accesses)
    assert repositories.resolve(chart("*"), ANONYMOUS, max_age=60.0) == first
    assert len(servers.accesses) == requests


def test_replicas_have_the_same_commit(tmp_path: Path, servers: FakeArtifacts) -> None:
    both = [Repositories(tmp_path / name, artifacts=servers) for name in ("one", "two")]
    commits = [repositories.resolve(chart("1.0.0"), ANONYMOUS) for repositories in both]
    assert commits[0] == commits[1]
    for repositories in both:
        repositories.close()


def test_a_new_version_changes_the_paths_that_differ(repositories: Repositories, servers: FakeArtifacts) -> None:
    source = chart("*")
    first = repositories.resolve(source, ANONYMOUS)
    servers.archives["3.0.0"] = chart_archive("3.0.0", config=MANIFEST)
    second = repositories.resolve(source, ANONYMOUS)
    assert repositories.changed_paths(source, first, second) == {"Chart.yaml", "templates/config.yaml"}
    # a range is like a tag: no version has to contain the one before
    assert repositories.is_forward(source, first, second)
    assert [commit.id for commit in repositories.commits(source, second)] == [second]
    assert repositories.authors(source, first, second) == {"charts.example.com"}


def test_a_tag_is_in_the_subject_of_an_artifact(repositories: Repositories, servers: FakeArtifacts) -> None:
    servers.is_chart = False
    servers.archives = {"6.5.0": packed({"deploy/web.yaml": MANIFEST})}
    source = GitSource(repo_url="oci://registry.example.com/web", revision="~6.5")
    snapshot = repositories.snapshot(source, ANONYMOUS, repositories.resolve(source, ANONYMOUS))
    assert snapshot.commit.subject == f"web 6.5.0 {digest_of(servers.archives['6.5.0'])}"
    assert snapshot.tree.names("deploy") == ("web.yaml",)


def test_modes_and_links_are_kept(repositories: Repositories, servers: FakeArtifacts) -> None:
    servers.is_chart = False
    link = file_entry('a "quoted" name')
    link.type = tarfile.SYMTYPE
    link.linkname = "deploy/naïve.sh"
    servers.archives = {"1": tar_of((file_entry("./deploy/naïve.sh", mode=0o755), b"#!"), (link, b""))}
    source = GitSource(repo_url="oci://registry.example.com/web", revision="1")
    tree = repositories.snapshot(source, ANONYMOUS, repositories.resolve(source, ANONYMOUS)).tree
    assert tree.entry('a "quoted" name') is Entry.LINK
    assert tree.read("deploy/naïve.sh") == b"#!"


def test_what_no_version_matches_is_an_error(repositories: Repositories, servers: FakeArtifacts) -> None:
    with pytest.raises(MissingRevision, match=r"no version of https://charts.example.com/stable/web is in the range"):
        repositories.resolve(chart(">=9"), ANONYMOUS)
    servers.archives = {}
    with pytest.raises(MissingRevision, match="it has none: push one"):
        repositories.resolve(chart(">=9"), ANONYMOUS)


def test_a_kept_version_survives_its_deletion(repositories: Repositories, servers: FakeArtifacts) -> None:
    commit = repositories.resolve(chart("1.0.0"), ANONYMOUS)
    del servers.archives["1.0.0"]
    assert repositories.snapshot(chart("*"), ANONYMOUS, commit).commit.id == commit


def test_a_pinned_commit_needs_no_version(repositories: Repositories) -> None:
    commit = repositories.resolve(chart("1.0.0"), ANONYMOUS)
    pinned = chart(commit)
    assert repositories.resolve(pinned, ANONYMOUS) == commit
    assert repositories.snapshot(pinned, ANONYMOUS, commit).commit.id == commit


def test_a_lost_mirror_is_filled_by_the_version(tmp_path: Path, servers: FakeArtifacts) -> None:
    first = Repositories(tmp_path / "mirrors", artifacts=servers)
    old = first.resolve(chart("1.0.0"), ANONYMOUS)
    new = first.resolve(chart("2.0.0"), ANONYMOUS)
    first.close()
    shutil.rmtree(tmp_path / "mirrors")
    second = Repositories(tmp_path / "mirrors", artifacts=servers)
    assert second.snapshot(chart("2.0.0"), ANONYMOUS, new).commit.id == new
    with pytest.raises(InvalidInput, match=r"set spec\.source\.revision to its version or digest"):
        second.snapshot(chart("2.0.0"), ANONYMOUS, old)
    second.close()


def test_a_damaged_mirror_is_rebuilt(repositories: Repositories, servers: FakeArtifacts, tmp_path: Path) -> None:
    commit = repositories.resolve(chart("1.0.0"), ANONYMOUS)
    mirror = next(path for path in (tmp_path / "mirrors").iterdir() if path.is_dir())
    (mirror / CORRUPT).touch()
    assert repositories.snapshot(chart("1.0.0"), ANONYMOUS, commit).commit.id == commit
    assert servers.pulls == ["1.0.0", "1.0.0"]


@pytest.mark.parametrize(
    ("limits", "is_kept"),
    [
        pytest.param(SourceLimits(artifact_bytes=500), False, id="small archives"),
        pytest.param(SourceLimits(mirror_bytes=1), True, id="small repositories"),
    ],
)
def test_kept_versions_have_a_limit_of_their_own(
    tmp_path: Path, servers: FakeArtifacts, monkeypatch: pytest.MonkeyPatch, limits: SourceLimits, is_kept: bool
) -> None:
    monkeypatch.setattr("gitsync.source.artifacts._KEPT_ARCHIVES", 1)
    first = Repositories(tmp_path / "mirrors", Transport(limits=limits), servers)
    old = first.resolve(chart("1.0.0"), ANONYMOUS)
    first.close()
    second = Repositories(tmp_path / "mirrors", Transport(limits=limits), servers)  # measures the mirror again
    new = second.resolve(chart("2.0.0"), ANONYMOUS)
    assert second.snapshot(chart("2.0.0"), ANONYMOUS, new).commit.id == new
    with contextlib.nullcontext() if is_kept else pytest.raises(InvalidInput, match="not kept here any more"):
        assert second.snapshot(chart("2.0.0"), ANONYMOUS, old).commit.id == old
    second.close()


def test_denied_credentials_read_nothing(repositories: Repositories, servers: FakeArtifacts) -> None:
    commit = repositories.resolve(chart("1.0.0"), ANONYMOUS)
    servers.failure = SourceDenied("denied")
    with pytest.raises(SourceDenied):
        repositories.snapshot(chart("1.0.0"), Credentials(username="eve", password="x"), commit)


def test_a_failure_is_shared_and_then_asked_again(repositories: Repositories, servers: FakeArtifacts) -> None:
    servers.failure = SourceUnavailable("away")
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match="away"):
            repositories.resolve(chart("1.0.0"), ANONYMOUS, max_age=60.0)
    assert len(servers.accesses) == 1
    servers.failure = None
    assert repositories.resolve(chart("1.0.0"), ANONYMOUS)


def test_an_artifact_is_not_reverted(repositories: Repositories) -> None:
    commit = repositories.resolve(chart("1.0.0"), ANONYMOUS)
    with pytest.raises(Refused, match="follows a tag, a range or a fixed commit"):
        repositories.revert(chart("1.0.0"), ANONYMOUS, [commit], author="ann")


def test_credentials_need_tls(tmp_path: Path, servers: FakeArtifacts) -> None:
    source = GitSource(repo_url="oci://registry.lan:5000/web", revision="1.0.0")
    secret = Credentials(username="ann", password="x")
    plain = Repositories(tmp_path / "a", Transport(plain=PlainHosts.parse("registry.lan:5000", "")), servers)
    plain.resolve(source, ANONYMOUS)
    assert servers.accesses[-1].plain("http://registry.lan:5000/")
    with pytest.raises(InvalidInput, match=r"credentials are not sent to registry\.lan without TLS"):
        plain.resolve(source, secret)
    plain.close()
    signed_in = Repositories(tmp_path / "b", Transport(plain=PlainHosts.parse("", "registry.lan:5000")), servers)
    signed_in.resolve(source, secret)
    assert servers.accesses[-1].credentials == secret
    signed_in.close()


def test_without_servers_no_artifact_is_read(tmp_path: Path) -> None:
    repositories = Repositories(tmp_path / "mirrors")
    with pytest.raises(InvalidInput, match="charts and artifacts of registries are not read here"):
        repositories.resolve(chart("1.0.0"), ANONYMOUS)


@pytest.mark.parametrize("time", ["inf", "nan", "1e400", "-5"])
def test_odd_times_of_files_raise_nothing_else(time: str) -> None:
    entry = file_entry("a")
    entry.pax_headers = {"mtime": time}
    archive = tar_of((entry, b"x"))
    try:
        files = archive_files(PulledArtifact(archive, is_chart=False), SourceLimits(), "web")
    except InvalidInput:
        return
    assert files["a"].time >= 0
