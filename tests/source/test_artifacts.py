"""Charts and OCI artifacts as commits, and archives that are not taken."""

from __future__ import annotations

import gzip
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


def entry_of(kind: bytes, path: str, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type = kind
    entry.linkname = target
    return entry


def header_of(size: int) -> bytes:
    """Return the header of members for all entries, which are as long as it says."""
    entry = file_entry("pax")
    entry.type = tarfile.XGLTYPE
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


LINK = tarfile.SYMTYPE
CHART = (file_entry("web/Chart.yaml"), b"version: 1.0.0\n")
SPARSE = file_entry("zeros")
SPARSE.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9999999999"}


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        pytest.param(b"", "not a whole tar archive", id="empty"),
        pytest.param(b"<html>", "not a whole tar archive", id="page"),
        pytest.param(packed({"a": "b" * 5000})[:-20], "not a whole tar archive", id="cut gzip"),
        pytest.param(tar_of((file_entry("a"), b"b" * 900))[:700], "not a whole tar archive", id="cut tar"),
        pytest.param(b"\x1f\x8b" + b"x" * 50, "not a whole tar archive", id="damaged gzip"),
        pytest.param(tar_of(), "no files", id="no entry"),
        pytest.param(tar_of((entry_of(tarfile.DIRTYPE, "a"), b"")), "no files", id="folders alone"),
        pytest.param(tar_of((file_entry("../a"), b"")), r"an entry that leads out of it: \.\./a", id="parent"),
        pytest.param(tar_of((file_entry("a/../../b"), b"")), "an entry that leads out of it", id="parent inside"),
        pytest.param(tar_of((file_entry("/etc/passwd"), b"")), "an entry that leads out of it", id="absolute"),
        pytest.param(tar_of((file_entry("C:/x"), b"")), "an entry that leads out of it", id="drive"),
        pytest.param(tar_of((file_entry("a\\b"), b"")), "control character or a backslash", id="backslash"),
        pytest.param(tar_of((file_entry("a\nb"), b"")), "control character or a backslash", id="line break"),
        pytest.param(tar_of((file_entry("a/.GIT/hooks"), b"")), "an entry of a Git repository", id="git"),
        pytest.param(tar_of((entry_of(LINK, "a", "/etc/passwd"), b"")), "a link that leads out of it: a", id="link"),
        pytest.param(tar_of((entry_of(LINK, "a/b", "../../c"), b"")), "a link that leads out of it: a/b", id="up"),
        pytest.param(tar_of((entry_of(LINK, "a", ""), b"")), "a link that leads out of it: a", id="empty link"),
        pytest.param(tar_of((entry_of(tarfile.LNKTYPE, "a", "b"), b"")), "neither a file nor a folder", id="hard link"),
        pytest.param(tar_of((entry_of(tarfile.CHRTYPE, "a"), b"")), "neither a file nor a folder", id="device"),
        pytest.param(tar_of((entry_of(tarfile.FIFOTYPE, "a"), b"")), "neither a file nor a folder", id="pipe"),
        pytest.param(tar_of((SPARSE, b"1\n0\n1\n" + b"\0" * 506)), "not a whole|neither a file", id="sparse"),
        pytest.param(tar_of((file_entry("a"), b""), (file_entry("./a"), b"")), "two entries a", id="twice"),
        pytest.param(tar_of((file_entry("a"), b""), (file_entry("a/b"), b"")), "a as a file and as a fol", id="both"),
        pytest.param(tar_of((entry_of(LINK, "a", "b"), b""), (file_entry("a/c"), b"")), "a as a file", id="a link"),
        pytest.param(tar_of((file_entry("a"), b"x" * 1100)), "a file of more than 0 MiB: a", id="large file"),
        pytest.param(
            tar_of(*((file_entry(str(number)), b"x" * 900) for number in range(9))), "larger than the limit", id="large"
        ),
        pytest.param(gzip.compress(b"\0" * (1 << 20)), "no files", id="zeros"),
        pytest.param(gzip.compress(header_of(20 << 20) + bytes(20 << 20)), "larger than the limit", id="bomb"),
        pytest.param(tar_of(*((file_entry(str(number)), b"") for number in range(60))), "more than 50", id="many"),
    ],
)  # fmt: skip
def test_an_archive_that_is_not_taken_is_one_line(archive: bytes, says: str) -> None:
    limits = SourceLimits(file_bytes=1000, files=50, read_bytes=5000)
    with pytest.raises(InvalidInput, match=rf"^web 1\.0\.0: the archive .*({says})") as caught:
        archive_files(PulledArtifact(archive, is_chart=False), limits, "web 1.0.0")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("archive", [header_of(1 << 30) + bytes(1024), header_of(0) * 5000], ids=["long", "endless"])
def test_headers_take_no_memory_without_end(archive: bytes) -> None:
    with pytest.raises(InvalidInput, match="the archive"):
        archive_files(PulledArtifact(archive, is_chart=False), SourceLimits(read_bytes=5000), "web")


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


@pytest.mark.parametrize(
    ("archive", "says"),
    [
        pytest.param(tar_of(CHART, (file_entry("b/a"), b"")), "outside of the one folder", id="two folders"),
        pytest.param(tar_of(CHART, (file_entry("README"), b"")), "outside of the one folder", id="file beside"),
        pytest.param(tar_of((file_entry("Chart.yaml"), b"")), "outside of the one folder", id="no folder"),
        pytest.param(tar_of((file_entry("web/values.yaml"), b"")), "has no Chart.yaml", id="no chart"),
        pytest.param(tar_of((file_entry("web/web/Chart.yaml"), b"")), "has no Chart.yaml", id="too deep"),
    ],
)
def test_an_archive_that_is_no_chart_is_one_line(archive: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        archive_files(PulledArtifact(archive, is_chart=True), SourceLimits(), "web")
