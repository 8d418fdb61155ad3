"""Objects of a real repository, read through one git process."""

from __future__ import annotations

import gc
import hashlib
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.errors import SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.object_reader import ObjectReader, TooLarge, changed_paths, has_near_ancestor, parse_commit
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from tests.git_processes import GitProcesses
from tests.git_repository import GitRepo, git

NO_CREDENTIALS = Credentials()


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def test_objects_are_read_by_one_process(repo: GitRepo, git_processes: GitProcesses) -> None:
    commit = repo.commit({"a/b/c.yaml": "1", "d.yaml": "22"})
    git_processes.forget()
    reader = ObjectReader(repo.origin)
    root = reader.tree(reader.commit(commit).tree)
    assert reader.blob(root["d.yaml"].id, 10) == b"22"
    assert reader.tree(root["a"].id).keys() == {"b"}
    assert git_processes.counts() == Counter({"cat-file": 1})
    reader.close()


def test_a_large_object_is_not_loaded_and_the_next_one_is_read(repo: GitRepo) -> None:
    reader = ObjectReader(repo.origin)
    root = reader.tree(reader.commit(repo.commit({"large": "x" * 1000, "small": "y"})).tree)
    with pytest.raises(TooLarge) as error:
        reader.blob(root["large"].id, 10)
    assert error.value.size == 1000
    assert reader.blob(root["small"].id, 10) == b"y"
    reader.close()


def test_a_missing_object_is_unavailable_and_no_end_of_reading(repo: GitRepo) -> None:
    commit = repo.commit({"a": "1"})
    reader = ObjectReader(repo.origin)
    with pytest.raises(SourceUnavailable, match="cannot be read from the mirror"):
        reader.commit("0" * 40)
    assert reader.find_commit("0" * 40) is None
    assert reader.find_tree(commit) is None, "a commit is not a tree"
    assert reader.commit(commit).commit.author == "Ada Writer"
    reader.close()


def test_a_malformed_folder_is_unavailable(repo: GitRepo) -> None:
    """None of its entries may be left out without notice; Git reads such an object, if its hash is right."""
    content = b"40000 a\0" + bytes(20) + b"100644 cut off\0short"
    stored = b"tree %d\0%s" % (len(content), content)
    id = hashlib.sha1(stored).hexdigest()
    path = repo.origin / "objects" / id[:2] / id[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(stored))
    reader = ObjectReader(repo.origin)
    with pytest.raises(SourceUnavailable, match="damaged or missing"):
        reader.tree(id)
    reader.close()


def test_objects_that_arrive_later_are_found(repo: GitRepo) -> None:
    reader = ObjectReader(repo.origin)
    reader.commit(repo.commit({"a": "1"}))
    later = repo.commit({f"{number}": str(number) for number in range(200)})
    assert len(reader.tree(reader.commit(later).tree)) == 201
    reader.close()


def test_a_reader_in_a_cycle_of_garbage_ends_its_process_without_a_warning(repo: GitRepo) -> None:
    reader = ObjectReader(repo.origin)
    reader.commit(repo.commit({"a": "1"}))
    assert reader._process is not None
    id = reader._process.pid
    # a collection orders objects as it meets them: the process comes before its reader from now on
    met_first, met_last = [reader._process], [reader]
    met_last.append(met_last)  # type: ignore[arg-type]
    del reader
    gc.collect()
    del met_first
    del met_last
    gc.collect()
    assert not Path(f"/proc/{id}").exists()


def test_a_commit_is_read_in_its_encoding_and_zone() -> None:
    head = b"tree " + b"1" * 40 + b"\nauthor J\xf6rg <j@x> 1 +0000\ncommitter C <c@x> 86400 -0130\nencoding latin-1\n"
    commit, tree, _ = parse_commit("c" * 40, head + b"gpgsig a\n b\n\nSubj\xe9ct\n\nbody\n")
    assert (commit.author, commit.email, commit.message) == ("Jörg", "j@x", "Subjéct\n\nbody")
    assert commit.time is not None
    assert commit.time.isoformat() == "1970-01-01T22:30:00-01:30"
    assert tree == "1" * 40


@pytest.mark.parametrize("line", [b"committer C <c@x> 1 +9999", b"committer C", b"committer <> 99999999999999 +0000"])
def test_a_commit_with_an_invalid_time_is_read(line: bytes) -> None:
    commit, _, _ = parse_commit("c" * 40, b"tree 1\nauthor A <a@x>\n" + line + b"\nencoding none\n\nm")
    assert commit.author == "A"
    assert commit.time is not None
    assert commit.time.timestamp() == 0


def test_near_ancestors_are_those_that_git_names(repo: GitRepo) -> None:
    first = repo.commit({"a": "1"})
    git(repo.work, "checkout", "-q", "-b", "side")
    side = repo.commit({"b": "1"}, push=False)
    git(repo.work, "checkout", "-q", "main")
    main = repo.commit({"a": "2"}, push=False)
    git(repo.work, "merge", "-q", "--no-edit", "side")
    merged = git(repo.work, "rev-parse", "HEAD")
    commits = (first, side, main, merged)
    reader = ObjectReader(repo.work / ".git")
    for commit in commits:
        ancestors = git(repo.work, "rev-list", commit).split()
        assert {earlier for earlier in commits if has_near_ancestor(reader, commit, earlier)} == set(ancestors)
    assert not has_near_ancestor(reader, merged, "0" * 40)
    assert not has_near_ancestor(reader, "0" * 40, merged)
    reader.close()


def test_only_the_nearest_ancestors_are_read(repo: GitRepo, git_processes: GitProcesses) -> None:
    commits = (f"commit refs/heads/main\ncommitter A <a@x> {time} +0000\ndata 1\nx\n" for time in range(130))
    git(repo.origin, "fast-import", "--quiet", stdin="".join(commits).encode())
    ids = git(repo.origin, "rev-list", "--reverse", "main").split()
    reader = ObjectReader(repo.origin)
    assert has_near_ancestor(reader, ids[-1], ids[-128])
    assert not has_near_ancestor(reader, ids[-1], ids[-129])
    reader.close()
    mirror = Repositories(repo.work.parent / "mirrors", Transport(("file",)))
    source = GitSource(repo_url=f"file://{repo.origin}")
    assert mirror.resolve(source, NO_CREDENTIALS) == ids[-1]
    mirror.fetch(source, NO_CREDENTIALS, ids[-1])
    git_processes.forget()
    assert mirror.is_forward(source, ids[-2], ids[-1])
    assert git_processes.counts()["merge-base"] == 0
    assert mirror.is_forward(source, ids[0], ids[-1])
    assert not mirror.is_forward(source, ids[-1], ids[0])
    assert git_processes.counts()["merge-base"] == 2


@pytest.mark.parametrize("parent", [b"HEAD", b"0" * 39, b"", b"\xff" * 40], ids=["ref", "short", "empty", "binary"])
def test_a_parent_that_is_no_id_is_not_looked_up(repo: GitRepo, parent: bytes) -> None:
    tree = git(repo.work, "write-tree")
    content = b"tree " + tree.encode() + b"\nparent " + parent + b"\nauthor A <a@x> 1 +0000\n\nm"
    name = hashlib.sha1(b"commit %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    path = repo.work / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(b"commit %d\0" % len(content) + content))
    earlier = repo.commit({"a": "1"})
    reader = ObjectReader(repo.work / ".git")
    assert not has_near_ancestor(reader, name, earlier)
    reader.close()


PATHS = ("a", "a/b", "a/b/c", "d/e", "d/f", "g", "h\xff", "sp ace/x")
TREES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["1", "2"]), max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TREES, after=TREES)
def test_changed_paths_are_those_that_git_lists(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], after: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("diff")
    git(folder, "init", "-q", "-b", "main")
    commits = [_commit(folder, files) for files in (before, after)]
    reader = ObjectReader(folder / ".git")
    found = changed_paths(reader, *commits)
    listed = git(folder, "diff-tree", "-r", "-z", "--name-only", "--no-renames", *commits)
    assert found == frozenset(part for part in listed.split("\0") if part)
    assert changed_paths(reader, commits[0], "0" * 40) is None
    reader.close()


def _commit(folder: Path, files: dict[str, str]) -> str:
    """Commit exactly these files, without those that another one would be a folder of."""
    git(folder, "read-tree", "--empty")
    for path, content in files.items():
        if not any(other.startswith(f"{path}/") for other in files):
            blob = git(folder, "hash-object", "-w", "--stdin", stdin=content.encode())
            git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    tree = git(folder, "write-tree")
    return git(folder, "commit-tree", "-m", "x", tree)


def test_a_commit_costs_few_git_processes_however_many_applications_read_it(
    repo: GitRepo, tmp_path: Path, git_processes: GitProcesses
) -> None:
    files = {f"app-{number}/a.yaml": str(number) for number in range(50)}
    sources = [GitSource(repo_url=repo.url, path=f"app-{number}") for number in range(50)]
    first = repo.commit(dict(files))
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    for source in sources:
        repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS, max_age=60))
    second = repo.commit({"app-7/a.yaml": "x"})
    git_processes.forget()
    for number, source in enumerate(sources):
        assert repositories.resolve(source, NO_CREDENTIALS, max_age=0 if number == 0 else 60) == second
        snapshot = repositories.snapshot(source, NO_CREDENTIALS, second)
        assert snapshot.tree.read(f"app-{number}/a.yaml") == (b"x" if number == 7 else str(number).encode())
        assert repositories.changed_paths(source, first, second) == {"app-7/a.yaml"}
        assert repositories.is_forward(source, first, second)
    assert sum(git_processes.counts().values()) <= 8, git_processes.counts()


def test_repositories_end_reading_processes_beyond_the_limit(
    tmp_path: Path, git_processes: GitProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.source.repositories._READERS", 2)
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    for name in "abcd":
        repo = GitRepo(tmp_path / name)
        commit = repo.commit({"x": name})
        assert (
            repositories.snapshot(GitSource(repo_url=repo.url), NO_CREDENTIALS, commit).tree.read("x") == name.encode()
        )
    reading = [pid for pid in git_processes.running() if b"cat-file" in _command(pid)]
    assert len(reading) == 2
    repositories.close()
    assert [pid for pid in git_processes.running() if b"cat-file" in _command(pid)] == []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
