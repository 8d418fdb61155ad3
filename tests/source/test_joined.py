"""Commits of several sources as one commit: what it has, what it depends on, and what each source decides itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, MissingRevision, Refused, SourceUnavailable
from gitsync.objects.application import NamedSource, SourceGroup
from gitsync.objects.record import joined_commits
from gitsync.ports import Credentials
from gitsync.source import mirror as mirror_module
from gitsync.source.object_reader import CORRUPT
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.snapshot import GitTree, SourceLimits
from tests.fakes.artifacts import FakeArtifacts, chart_archive
from tests.git_repository import GitRepo

ANONYMOUS = Credentials()


@pytest.fixture
def values(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "values")
    repo.commit({"prod.yaml": "replicas: 2\n"}, "Set two replicas")
    return repo


@pytest.fixture
def servers() -> FakeArtifacts:
    return FakeArtifacts({"1.0.0": chart_archive("1.0.0")})


@pytest.fixture
def repositories(tmp_path: Path, servers: FakeArtifacts) -> Iterator[Repositories]:
    made = Repositories(tmp_path / "mirrors", Transport(schemes=("https", "file")), servers)
    yield made
    made.close()


def group_of(values: GitRepo, chart: str = "1.x", revision: str = "main") -> SourceGroup:
    """Return a chart, and the repository with its values."""
    web = {"name": "web", "repoURL": "https://charts.example.com/stable", "chart": "web", "revision": chart}
    own = {"name": "values", "repoURL": values.url, "revision": revision}
    return SourceGroup.of((NamedSource.model_validate(web), NamedSource.model_validate(own)))


def test_each_source_has_a_folder(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    commit = repositories.resolve(group, ANONYMOUS)
    snapshot = repositories.snapshot(group, ANONYMOUS, commit)
    assert snapshot.tree.names("") == ("values", "web")
    assert snapshot.tree.read("values/prod.yaml") == b"replicas: 2\n"
    assert b"name: web" in snapshot.tree.read("web/Chart.yaml")
    assert snapshot.commit.subject == "values: Set two replicas"
    assert snapshot.commit.author == "Ada Writer"
    assert [(part.source.name, part.commit) for part in snapshot.parts] == [*joined_commits(snapshot.commit).items()]


def test_the_mirrors_of_the_sources_are_repacked_and_the_joined_one_is_not(
    repositories: Repositories, values: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "_MANY_OBJECTS", -1)
    group = group_of(values)
    snapshots = []
    for number in range(3):
        values.commit({"prod.yaml": f"replicas: {number}\n"})
        snapshots.append(repositories.snapshot(group, ANONYMOUS, repositories.resolve(group, ANONYMOUS)))
    repositories.repack()
    joined = Path(snapshots[0].git_dir)
    packs = {len([*folder.glob("objects/pack/*.pack")]) > 0 for folder in joined.parent.glob("*/") if folder != joined}
    assert packs == {True}
    assert not [*joined.glob("objects/pack/*")]
    for number, snapshot in enumerate(snapshots):
        assert GitTree(joined, snapshot.commit.id).read("values/prod.yaml") == f"replicas: {number}\n".encode()


def test_a_render_process_reads_the_joined_files(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    snapshot = repositories.snapshot(group, ANONYMOUS, repositories.resolve(group, ANONYMOUS))
    tree = GitTree(snapshot.git_dir, snapshot.commit.id)
    assert tree.read("values/prod.yaml") == b"replicas: 2\n"


def test_each_replica_makes_the_same_commit(tmp_path: Path, repositories: Repositories, values: GitRepo) -> None:
    other = Repositories(
        tmp_path / "other",
        Transport(schemes=("https", "file")),
        FakeArtifacts({"1.0.0": chart_archive("1.0.0"), "0.9.0": chart_archive("0.9.0")}),
    )
    pinned = group_of(values, "1.0.0", values.commit({"x": "y"}))
    assert other.resolve(pinned, ANONYMOUS) == repositories.resolve(group_of(values), ANONYMOUS)
    other.close()


def test_a_commit_of_any_source_is_another_commit(
    repositories: Repositories, values: GitRepo, servers: FakeArtifacts
) -> None:
    group = group_of(values)
    first = repositories.resolve(group, ANONYMOUS)
    values.commit({"prod.yaml": "replicas: 3\n"}, "Set three replicas")
    second = repositories.resolve(group, ANONYMOUS)
    servers.archives["1.1.0"] = chart_archive("1.1.0")
    third = repositories.resolve(group, ANONYMOUS)
    assert len({first, second, third}) == 3
    assert repositories.changed_paths(group, first, second) == frozenset({"values/prod.yaml"})
    assert repositories.changed_paths(group, second, third) == frozenset({"web/Chart.yaml"})
    # the commits of both, by which both can be set
    assert repositories.snapshot(group, ANONYMOUS, first).tree.read("values/prod.yaml") == b"replicas: 2\n"


def test_the_commits_of_a_joined_one_name_it_again(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    commit = repositories.resolve(group, ANONYMOUS)
    commits = joined_commits(repositories.snapshot(group, ANONYMOUS, commit).commit)
    values.commit({"prod.yaml": "replicas: 3\n"})
    pinned = group_of(values, commits["web"], commits["values"])
    assert repositories.resolve(pinned, ANONYMOUS) == commit


def test_nothing_is_joined_while_one_does_not_answer(
    repositories: Repositories, values: GitRepo, servers: FakeArtifacts
) -> None:
    group = group_of(values)
    repositories.resolve(group, ANONYMOUS)
    values.commit({"prod.yaml": "replicas: 3\n"})
    servers.failure = SourceUnavailable("the registry does not answer", location="spec.source.repoURL")
    with pytest.raises(SourceUnavailable, match="does not answer") as caught:
        repositories.resolve(group, ANONYMOUS)
    assert caught.value.location == "spec.sources[web].repoURL"


def test_errors_name_the_source(repositories: Repositories, values: GitRepo) -> None:
    with pytest.raises(MissingRevision) as caught:
        repositories.resolve(group_of(values, revision="missing"), ANONYMOUS)
    assert caught.value.location == "spec.sources[values].revision"
    group = group_of(values)
    bad = SourceGroup.of((group.members[0], group.members[1].model_copy(update={"repo_url": "http://x/y"})))
    with pytest.raises(InvalidInput) as invalid:
        repositories.check(bad)
    assert invalid.value.location == "spec.sources[values].repoURL"


def test_credentials_are_those_of_each_source(
    repositories: Repositories, values: GitRepo, servers: FakeArtifacts
) -> None:
    secret = Credentials(username="robot", password="secret")
    repositories.resolve(group_of(values), Credentials(parts=(secret, ANONYMOUS)))
    assert {access.credentials for access in servers.accesses} == {secret}


def test_only_a_rewritten_branch_is_no_forward(
    repositories: Repositories, values: GitRepo, servers: FakeArtifacts
) -> None:
    group = group_of(values)
    first = repositories.resolve(group, ANONYMOUS)
    servers.archives["1.1.0"] = chart_archive("1.1.0")
    values.commit({"prod.yaml": "replicas: 3\n"})
    second = repositories.resolve(group, ANONYMOUS)
    assert repositories.is_forward(group, first, second)
    assert not repositories.is_forward(group, second, first)


def test_authors_are_those_of_what_changed(repositories: Repositories, values: GitRepo, servers: FakeArtifacts) -> None:
    group = group_of(values)
    first = repositories.resolve(group, ANONYMOUS)
    servers.archives["1.1.0"] = chart_archive("1.1.0")
    second = repositories.resolve(group, ANONYMOUS)
    values.commit({"prod.yaml": "replicas: 3\n"})
    third = repositories.resolve(group, ANONYMOUS)
    assert "Ada Writer" not in repositories.authors(group, first, second)
    assert "Ada Writer" in repositories.authors(group, second, third)
    assert "Ada Writer" in repositories.authors(group, "", third)


def test_lines_have_the_authors_of_their_repository(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    commit = repositories.resolve(group, ANONYMOUS)
    authors = repositories.blame(group, commit, ["values/prod.yaml:1", "web/Chart.yaml:1", "prod.yaml:1"])
    assert authors["values/prod.yaml:1"].subject == "Set two replicas"
    assert authors["web/Chart.yaml:1"].subject.startswith("web 1.0.0")
    assert "prod.yaml:1" not in authors
    (version,) = repositories.file_versions(group, commit, ["values/prod.yaml"])["values/prod.yaml"]
    assert version.content == b"replicas: 2\n"


def test_a_large_file_is_fetched_from_its_repository(tmp_path: Path, servers: FakeArtifacts, values: GitRepo) -> None:
    git_limits = SourceLimits(first_bytes=100)
    made = Repositories(tmp_path / "m", Transport(schemes=("https", "file"), limits=git_limits), servers)
    values.commit({"notes.txt": "x" * 200, "large.yaml": "y" * 200})
    group = group_of(values)
    snapshot = made.snapshot(group, ANONYMOUS, made.resolve(group, ANONYMOUS))
    assert snapshot.tree.read("values/notes.txt") == b"x" * 200
    assert GitTree(snapshot.git_dir, snapshot.commit.id).read("values/large.yaml") == b"y" * 200
    made.close()


def test_a_damaged_mirror_is_rebuilt(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    commit = repositories.resolve(group, ANONYMOUS)
    snapshot = repositories.snapshot(group, ANONYMOUS, commit)
    (Path(snapshot.git_dir) / CORRUPT).touch()
    again = repositories.snapshot(group, ANONYMOUS, commit)
    assert again.tree.read("values/prod.yaml") == b"replicas: 2\n"
    assert not (Path(snapshot.git_dir) / CORRUPT).exists()


def test_a_lost_commit_is_rebuilt(tmp_path: Path, values: GitRepo, servers: FakeArtifacts) -> None:
    def made(folder: str) -> Repositories:
        return Repositories(tmp_path / folder, Transport(schemes=("https", "file")), servers)

    group = group_of(values)
    first = made("a")
    commit = first.resolve(group, ANONYMOUS)
    first.close()
    second = made("b")
    assert second.snapshot(group, ANONYMOUS, commit).tree.read("values/prod.yaml") == b"replicas: 2\n"
    values.commit({"prod.yaml": "replicas: 3\n"})
    third = made("c")
    with pytest.raises(InvalidInput, match="not kept here any more"):
        third.snapshot(group, ANONYMOUS, commit)
    second.close()
    third.close()


def test_what_is_done_in_one_repository_is_refused(repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    commit = repositories.resolve(group, ANONYMOUS)
    for request in (
        lambda: repositories.revert(group, ANONYMOUS, [commit], author="ada"),
        lambda: repositories.prepare_revert(group, ANONYMOUS, [commit]),
        lambda: repositories.branches(group, ANONYMOUS),
        lambda: repositories.merge(group, ANONYMOUS, commit, commit),
    ):
        with pytest.raises(Refused, match="several sources"):
            request()


def test_ids_of_two_hashes_are_refused(tmp_path: Path, repositories: Repositories, values: GitRepo) -> None:
    group = group_of(values)
    mirror = repositories._mirror(group)
    with pytest.raises(InvalidInput, match="SHA-256"):
        mirror.join({"web": "0" * 40, "values": "0" * 64})  # type: ignore[attr-defined]


def test_a_group_without_credentials_is_anonymous(repositories: Repositories, values: GitRepo) -> None:
    assert repositories.resolve(group_of(values), replace(ANONYMOUS, parts=())) == repositories.resolve(
        group_of(values), Credentials(parts=(ANONYMOUS, ANONYMOUS))
    )
