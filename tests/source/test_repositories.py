"""What is read of a repository and pushed to it, through a real server; mirrors that no Application uses go."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from gitsync.errors import InvalidInput, MissingRevision, Refused, SourceDenied, SourceUnavailable
from gitsync.objects.application import GitSource
from gitsync.objects.tree import Entry
from gitsync.ports import Credentials
from gitsync.source import mirror as mirror_module
from gitsync.source.local import FolderTree
from gitsync.source.quarantine import size_of
from gitsync.source.remote import Transport
from gitsync.source.repositories import MirrorCleanup, Repositories
from gitsync.source.snapshot import GitTree, SourceLimits
from tests.git_http_server import GitServer
from tests.git_processes import GitProcesses
from tests.git_repository import GitRepo, git
from tests.waiting import until

NO_CREDENTIALS = Credentials()


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[GitRepo]:
    with GitServer(tmp_path / "git") as server:
        made = GitRepo(tmp_path / "git", server.url("origin.git"))
        git(made.origin, "config", "http.receivepack", "true")
        yield made


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path / "mirrors", Transport(("http",)))


def source_of(repo: GitRepo, revision: str = "main", path: str = "app") -> GitSource:
    return GitSource(repo_url=repo.url, revision=revision, path=path)


def test_a_snapshot_holds_files_author_and_message(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1\n", "app/sub/ü.yaml": "b: 2\n"}, "Add the app\n\nWith a body.")
    source = source_of(repo)
    assert repositories.resolve(source, NO_CREDENTIALS) == commit
    snapshot = repositories.snapshot(source, NO_CREDENTIALS, commit)
    assert (snapshot.commit.author, snapshot.commit.email) == ("Ada Writer", "ada@example.test")
    assert snapshot.commit.subject == "Add the app"
    assert snapshot.commit.time is not None
    assert snapshot.commit.time.tzinfo is not None
    assert snapshot.tree.names("app") == ("a.yaml", "sub")
    assert snapshot.tree.read("app/a.yaml") == b"a: 1\n"
    assert snapshot.tree.read("app/sub/ü.yaml") == b"b: 2\n"
    assert snapshot.tree.entry("app") is Entry.FOLDER
    assert snapshot.tree.entry("app/missing") is None


def test_a_moved_branch_is_seen_at_the_next_poll_only(repo: GitRepo, repositories: Repositories) -> None:
    first = repo.commit({"app/a": "1"})
    source = source_of(repo)
    assert repositories.resolve(source, NO_CREDENTIALS, max_age=60) == first
    second = repo.commit({"app/a": "2"})
    assert repositories.resolve(source, NO_CREDENTIALS, max_age=60) == first
    assert repositories.resolve(source, NO_CREDENTIALS) == second


def test_tags_and_commits_are_revisions_too(repo: GitRepo, repositories: Repositories) -> None:
    first = repo.commit({"app/a": "1"})
    git(repo.work, "tag", "-a", "v1", "-m", "one")
    git(repo.work, "push", "-q", "origin", "v1")
    repo.commit({"app/a": "2"})
    assert repositories.resolve(source_of(repo, "v1"), NO_CREDENTIALS) == first
    for revision in ("v1", first):
        snapshot = repositories.snapshot(source_of(repo, revision), NO_CREDENTIALS, first)
        assert snapshot.tree.read("app/a") == b"1"


def unmerged(repo: GitRepo) -> str:
    """Return a commit that the server serves by its id and that no branch has, as hosts serve those of forks."""
    git(repo.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    repo.commit({"app/a": "1"})
    commit = repo.commit({"app/a": "evil"})
    git(repo.work, "push", "-q", "origin", f"{commit}:refs/pull/5/head")
    git(repo.work, "push", "-q", "--force", "origin", f"{commit}~1:main")
    return commit


def test_a_commit_in_no_branch_is_refused(repo: GitRepo, repositories: Repositories) -> None:
    commit = unmerged(repo)
    for _ in range(2):  # also once it is here
        with pytest.raises(InvalidInput, match=f"commit {commit[:12]} is in no branch and no tag"):
            repositories.snapshot(source_of(repo, commit), NO_CREDENTIALS, commit)


def test_a_preview_does_not_admit_its_commit(repo: GitRepo, repositories: Repositories) -> None:
    commit = unmerged(repo)
    base = repositories.resolve(source_of(repo), NO_CREDENTIALS)
    repositories.merge(source_of(repo), NO_CREDENTIALS, base, commit, ref="refs/pull/5/head")
    with pytest.raises(InvalidInput, match="is in no branch and no tag"):
        repositories.fetch(source_of(repo, commit), NO_CREDENTIALS, commit)


@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/heads/other/branch", "refs/tags/v1"])
def test_a_commit_below_any_branch_or_tag_is_used(ref: str, repo: GitRepo, repositories: Repositories) -> None:
    commit = unmerged(repo)
    with pytest.raises(InvalidInput, match="is in no branch and no tag"):
        repositories.fetch(source_of(repo, commit), NO_CREDENTIALS, commit)
    git(repo.work, "checkout", "-q", "--detach", commit)
    git(repo.work, "commit", "-q", "--allow-empty", "-m", "later")
    git(repo.work, "push", "-q", "origin", f"HEAD:{ref}")  # which contains it, and is known to no earlier answer

    assert repositories.snapshot(source_of(repo, commit), NO_CREDENTIALS, commit).tree.read("app/a") == b"evil"


def test_a_commit_stays_usable_after_its_branch_is_deleted(repo: GitRepo, tmp_path: Path) -> None:
    commit = unmerged(repo)
    git(repo.work, "push", "-q", "origin", f"{commit}:refs/heads/late")
    folder = tmp_path / "mirrors"
    Repositories(folder, Transport(("http",))).fetch(source_of(repo, commit), NO_CREDENTIALS, commit)
    git(repo.work, "push", "-q", "origin", ":refs/heads/late")

    Repositories(folder, Transport(("http",))).fetch(source_of(repo, commit), NO_CREDENTIALS, commit)


def test_an_unknown_revision_names_the_field(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1"})
    with pytest.raises(InvalidInput, match=r"spec\.source\.revision: the revision 'nope' does not exist"):
        repositories.resolve(source_of(repo, "nope"), NO_CREDENTIALS)


@pytest.mark.parametrize(
    ("url", "message"),
    [("http://127.0.0.1:1/absent.git", "refused or did not answer"), ("file:///absent.git", "has no such repository")],
)
def test_a_server_or_folder_that_is_away_is_transient(tmp_path: Path, url: str, message: str) -> None:
    repositories = Repositories(tmp_path / "mirrors", Transport(("file", "http")))
    with pytest.raises(SourceUnavailable, match=message) as caught:
        repositories.resolve(GitSource(repo_url=url), NO_CREDENTIALS)
    assert "mirrors" not in str(caught.value)


def test_changed_paths_between_commits(repo: GitRepo, repositories: Repositories) -> None:
    first = repo.commit({"app/a": "1", "b": "1"})
    second = repo.commit({"app/a": "2", "c/d": "1", "b": None})
    source = source_of(repo)
    repositories.snapshot(source, NO_CREDENTIALS, second)
    assert repositories.changed_paths(source, first, second) == {"app/a", "c/d", "b"}
    assert repositories.changed_paths(source, "0" * 40, second) is None


def test_links_are_never_followed_and_submodules_left_out(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a": "1"}, symlinks={"app/link": "../../etc"}, gitlinks={"lib": "1" * 40})
    snapshot = repositories.snapshot(source_of(repo, path=""), NO_CREDENTIALS, commit)
    assert snapshot.tree.entry("app/link") is Entry.LINK
    assert snapshot.tree.read("app/link") == b"../../etc"
    assert snapshot.tree.entry("lib") is Entry.SUBMODULE
    assert snapshot.warnings == ("lib: the files of this Git submodule are not read",)
    with pytest.raises(InvalidInput, match="lib: is a submodule"):
        snapshot.tree.read("lib")


def test_limits_name_the_file_the_size_and_the_limit(repo: GitRepo, tmp_path: Path) -> None:
    commit = repo.commit({"app/big": "x" * 200, "app/small": "x", "app/also": "x" * 60, "app/more": "x" * 60})
    limits = SourceLimits(file_bytes=100, read_bytes=100, files=3)
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",), limits=limits))
    with pytest.raises(InvalidInput, match="app: too many files or folders: more than 3, the limit"):
        repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit)
    tree = repositories.snapshot(source_of(repo, path="app/other"), NO_CREDENTIALS, commit).tree
    with pytest.raises(InvalidInput, match="app/big: the file is too large: 200 bytes, the limit is 100"):
        tree.read("app/big")
    tree.read("app/also")
    with pytest.raises(InvalidInput, match="app/more: the files read exceed"):
        tree.read("app/more")


def test_a_pack_past_the_limit_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    commit = repo.commit({f"app/{index}": bytes(range(256)) * index for index in range(1, 200)})
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",), limits=SourceLimits(pack_bytes=2000)))
    with pytest.raises(SourceUnavailable):
        repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit)


def test_a_damaged_mirror_is_made_anew(repo: GitRepo, tmp_path: Path, repositories: Repositories) -> None:
    source = source_of(repo)
    first = repo.commit({"app/a": "1"})
    repositories.snapshot(source, NO_CREDENTIALS, first)
    (mirror,) = filter(Path.is_dir, (tmp_path / "mirrors").iterdir())
    shutil.rmtree(mirror / "objects")
    (mirror / "objects").mkdir()
    assert repositories.resolve(source, NO_CREDENTIALS) == first
    assert repositories.snapshot(source, NO_CREDENTIALS, first).tree.read("app/a") == b"1"


def test_nothing_that_a_repository_brings_is_run(repo: GitRepo, tmp_path: Path, repositories: Repositories) -> None:
    marker = tmp_path / "marker"
    commit = repo.commit(
        {
            ".gitattributes": "* filter=evil diff=evil\n",
            ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {marker}\n',
            "hooks/post-checkout": f"#!/bin/sh\ntouch {marker}\n",
            "app/a": "1",
        }
    )
    assert repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit).tree.read("app/a") == b"1"
    assert not marker.exists()


def test_a_tree_can_be_read_again_after_close(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a": "1"})
    snapshot = repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit)
    tree = GitTree(snapshot.git_dir, commit)
    assert tree.read("app/a") == b"1"
    tree.close()
    assert tree.read("app/a") == b"1"
    tree.close()


def test_a_revert_is_pushed_as_a_real_commit(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1\n2\n3\n"}, "Good")
    bad = repo.commit({"app/a": "1\nbad\n3\n", "app/new": "x"}, "Bad")
    later = repo.commit({"other": "y"}, "Unrelated")
    result = repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace <grace@example.test>")
    git(repo.work, "pull", "-q", "origin", "main")
    assert result.branch == "main"
    assert (repo.work / "app/a").read_text() == "1\n2\n3\n"
    assert not (repo.work / "app/new").exists()
    assert (repo.work / "other").exists()
    assert git(repo.work, "rev-parse", "HEAD^") == later
    assert git(repo.work, "log", "-1", "--format=%an <%ae>|%s") == 'Grace <grace@example.test>|Revert "Bad"'
    assert f"This reverts commit {bad}." in git(repo.work, "log", "-1", "--format=%B")
    assert repositories.resolve(source_of(repo), NO_CREDENTIALS, max_age=60) == result.commit.id


def test_a_revert_has_the_reason_in_its_message(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1"}, "Good")
    bad = repo.commit({"app/a": "bad"}, "Bad")
    result = repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace", reason="customers wait")
    message = git(repo.origin, "log", "-1", "--format=%B", result.commit.id)
    assert message.strip() == f'Revert "Bad"\n\nThis reverts commit {bad}.\n\ncustomers wait'


def test_several_commits_and_a_merge_are_undone_by_one(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1"}, "Base")
    git(repo.work, "checkout", "-q", "-b", "side")
    repo.commit({"app/side": "1"}, "Side", push=False)
    git(repo.work, "checkout", "-q", "main")
    repo.commit({"app/main": "1"}, "Main")
    git(repo.work, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
    git(repo.work, "push", "-q", "origin", "main")
    merge = git(repo.work, "rev-parse", "HEAD")
    last = repo.commit({"app/a": "2"}, "Two")
    repositories.revert(source_of(repo), NO_CREDENTIALS, [last, merge], author="Grace", branch="undo")
    git(repo.work, "fetch", "-q", "origin")
    assert git(repo.work, "ls-tree", "-r", "--name-only", "origin/undo").split() == ["app/a", "app/main"]
    assert git(repo.work, "show", "origin/undo:app/a") == "1"
    assert git(repo.work, "rev-parse", "origin/main") == last


def test_a_revert_that_overlaps_later_work_is_refused(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1\n"}, "Good")
    bad = repo.commit({"app/a": "2\n"}, "Bad")
    head = repo.commit({"app/a": "3\n"}, "Later")
    with pytest.raises(Refused, match="cannot be reverted by itself"):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace")
    assert repositories.resolve(source_of(repo), NO_CREDENTIALS) == head


def test_reverting_twice_is_refused(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1\n"}, "Good")
    bad = repo.commit({"app/b": "2\n"}, "Bad")
    repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace")
    with pytest.raises(Refused):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace")


def test_a_fixed_commit_cannot_be_reverted(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a": "1\n"})
    with pytest.raises(Refused, match="fixed commit"):
        repositories.revert(source_of(repo, commit), NO_CREDENTIALS, [commit], author="Grace")


def test_credentials_are_in_no_representation() -> None:
    credentials = Credentials("me", "hunter2", "KEY")
    assert "hunter2" not in f"{credentials!r} {credentials}"
    assert "hunter2" not in json.dumps(repr(credentials))


def test_a_range_of_versions_names_the_highest_tag(repo: GitRepo, repositories: Repositories) -> None:
    commits = []
    for tag in ("v1.2.0", "v1.10.0", "v2.0.0"):
        commits.append(repo.commit({"app/a": tag}))
        git(repo.work, "push", "-q", "origin", f"HEAD:refs/tags/{tag}")
    source = source_of(repo, ">=1.2 <2")
    assert repositories.resolve(source, NO_CREDENTIALS) == commits[1]
    assert repositories.snapshot(source, NO_CREDENTIALS, commits[1]).tree.read("app/a") == b"v1.10.0"
    with pytest.raises(InvalidInput, match="does not exist"):
        repositories.resolve(source_of(repo, "^3"), NO_CREDENTIALS)
    with pytest.raises(Refused, match="not a branch"):
        repositories.revert(source, NO_CREDENTIALS, [commits[1]], author="Ada <ada@example.test>")


def test_a_range_with_an_operator_never_matches_a_branch(repo: GitRepo, repositories: Repositories) -> None:
    tagged = repo.commit({"app/a": "1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/tags/v1.2.0")
    branched = repo.commit({"app/a": "2"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/1.x", "HEAD:refs/heads/>=1", "HEAD:refs/heads/=1.2.0")
    for revision in (">=1", "=1.2.0", "~1", "v1.x"):
        assert repositories.resolve(source_of(repo, revision), NO_CREDENTIALS) == tagged
    assert repositories.resolve(source_of(repo, "refs/heads/1.x"), NO_CREDENTIALS) == branched


def test_a_branch_with_the_name_of_a_tag_is_ambiguous(repo: GitRepo, repositories: Repositories) -> None:
    tagged = repo.commit({"app/a": "1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/tags/v1.0.0")
    source = source_of(repo, "v1.0.0")
    assert repositories.resolve(source, NO_CREDENTIALS) == tagged
    branched = repo.commit({"app/a": "2"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/v1.0.0")
    with pytest.raises(InvalidInput, match=r"ambiguous.*set it to refs/heads/v1\.0\.0 or refs/tags/v1\.0\.0"):
        repositories.resolve(source, NO_CREDENTIALS)
    assert repositories.resolve(source_of(repo, "refs/tags/v1.0.0"), NO_CREDENTIALS) == tagged
    assert repositories.resolve(source_of(repo, "refs/heads/v1.0.0"), NO_CREDENTIALS) == branched


def test_a_branch_cannot_imitate_a_full_ref_name(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a": "1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/refs/tags/v1.0.0", f"HEAD:refs/heads/{commit}")
    with pytest.raises(InvalidInput, match="does not exist"):
        repositories.resolve(source_of(repo, "refs/tags/v1.0.0"), NO_CREDENTIALS)
    with pytest.raises(Refused, match="fixed commit"):
        repositories.revert(source_of(repo, commit), NO_CREDENTIALS, [commit], author="Grace")


def test_a_branch_moves_forward_or_was_rewritten(repo: GitRepo, repositories: Repositories) -> None:
    first, second = repo.commit({"app/a": "1"}), repo.commit({"app/a": "2"})
    source = source_of(repo)
    repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS))
    assert repositories.is_forward(source, first, second)
    assert not repositories.is_forward(source, second, first)
    assert not repositories.is_forward(source, "0" * 40, second), "an unknown commit is not an ancestor"
    assert repositories.is_forward(source_of(repo, second), second, first), "a fixed commit may be any"


def test_a_rewritten_branch_is_known_after_a_start_while_the_server_is_away(
    repo: GitRepo, repositories: Repositories, tmp_path: Path
) -> None:
    first, second = repo.commit({"app/a": "1"}), repo.commit({"app/a": "2"})
    source = source_of(repo)
    repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS))
    again = Repositories(tmp_path / "mirrors", Transport(("http",)))
    for revision in ("main", "refs/heads/main"):
        assert not again.is_forward(source_of(repo, revision), second, first)
        assert again.is_forward(source_of(repo, revision), first, second)
    for revision in ("refs/tags/v1", ">=1.2 <2", second):
        assert again.is_forward(source_of(repo, revision), second, first)


@pytest.mark.parametrize("branch", ["undo", "refs/heads/undo"])
def test_a_revert_is_pushed_to_a_branch_by_its_short_or_full_name(
    repo: GitRepo, repositories: Repositories, branch: str
) -> None:
    repo.commit({"app/a": "1"})
    bad = repo.commit({"app/a": "2"})
    result = repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace", branch=branch)
    assert result.branch == "undo"
    heads = git(repo.work, "ls-remote", "--heads", "origin")
    assert f"{result.commit.id}\trefs/heads/undo" in heads
    assert "refs/heads/refs" not in heads


@pytest.mark.parametrize("branch", ["production", "refs/heads/production"])
def test_a_revert_is_not_pushed_to_a_branch_that_others_deploy(
    repo: GitRepo, repositories: Repositories, branch: str
) -> None:
    released = repo.commit({"app/a": "1"})
    git(repo.work, "push", "-q", "origin", "main:production")
    bad = repo.commit({"app/a": "2"})
    # it would be a fast-forward, and so deploy all that is in main
    with pytest.raises(Refused, match="branch production exists already"):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace", branch=branch)
    assert f"{released}\trefs/heads/production" in git(repo.work, "ls-remote", "origin")


@pytest.mark.parametrize("branch", ["refs/tags/v1", "refs/heads/", "refs/for/main", "-x", "a..b", "HEAD~1"])
def test_a_revert_is_pushed_to_nothing_but_a_branch(repo: GitRepo, repositories: Repositories, branch: str) -> None:
    repo.commit({"app/a": "1"})
    bad = repo.commit({"app/a": "2"})
    with pytest.raises(InvalidInput, match=r"^--branch: "):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace", branch=branch)
    assert git(repo.work, "ls-remote", "origin").count("refs/") == 1


def test_a_push_that_the_server_refuses_shows_what_it_printed(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1"})
    bad = repo.commit({"app/a": "2"})
    hook = repo.origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'main is protected: open a merge request' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Refused, match=r"main is protected: open a merge request; .*pre-receive hook declined"):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [bad], author="Grace")


def test_the_first_commit_cannot_be_reverted(repo: GitRepo, repositories: Repositories) -> None:
    first = repo.commit({"app/a": "1"})
    with pytest.raises(Refused, match="is the first one of the repository"):
        repositories.revert(source_of(repo), NO_CREDENTIALS, [first], author="Grace")


def test_a_message_in_another_encoding_is_decoded(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a": "1"})
    git(repo.work, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--amend", "-F", "-", stdin=b"Gr\xf6\xdfe")
    git(repo.work, "push", "-q", "--force", "origin", "HEAD:main")
    source = source_of(repo)
    commit = repositories.resolve(source, NO_CREDENTIALS)
    assert repositories.snapshot(source, NO_CREDENTIALS, commit).commit.subject == "Größe"
    assert repositories.commits(source, commit)[0].subject == "Größe"


LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


def test_a_git_lfs_pointer_is_rejected_by_file_name(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/config.yaml": LFS_POINTER, "app/note.txt": f"about {LFS_POINTER}"})
    tree = repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit).tree
    for one in (tree, FolderTree(repo.work)):
        with pytest.raises(InvalidInput, match=r"^app/config\.yaml: the file is a Git LFS pointer.*git lfs untrack"):
            one.read("app/config.yaml")
        assert one.read("app/note.txt").startswith(b"about version")


def test_submodules_outside_the_path_are_not_reported(repo: GitRepo, repositories: Repositories) -> None:
    commit = repo.commit({"app/a": "1"}, gitlinks={"lib": "1" * 40, "app/inside": "1" * 40, "application": "1" * 40})
    warnings = repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit).warnings
    assert warnings == ("app/inside: the files of this Git submodule are not read",)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("vendor/base", "the path vendor/base is the Git submodule vendor/base, whose files are in another repository"),
        ("vendor/base/overlays/prod", "the path vendor/base/overlays/prod is in the Git submodule vendor/base"),
    ],
)
def test_a_path_in_a_submodule_is_named_as_one(
    repo: GitRepo, repositories: Repositories, path: str, message: str
) -> None:
    commit = repo.commit({"app/a.yaml": "a: 1"}, gitlinks={"vendor/base": "1" * 40})
    source = GitSource(repo_url=repo.url, revision="main", path=path)
    with pytest.raises(InvalidInput, match=message):
        repositories.snapshot(source, Credentials(), commit)


def test_a_branch_that_hides_a_range_is_a_warning(repo: GitRepo, repositories: Repositories) -> None:
    repo.commit({"app/a.yaml": "a: 1"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/tags/v1.4.0")
    branch = repo.commit({"app/a.yaml": "a: 2"})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/1.x")
    source = GitSource(repo_url=repo.url, revision="1.x", path="app")
    assert repositories.resolve(source, Credentials()) == branch
    (warning,) = repositories.snapshot(source, Credentials(), branch).warnings
    assert warning.startswith("the revision 1.x is refs/heads/1.x, not a range of versions")


class TestNamesThatAppear:
    """A list of refs from before a push does not decide that a name is missing."""

    @pytest.fixture
    def site(self, tmp_path: Path) -> Iterator[tuple[GitServer, GitRepo, Repositories, list[float]]]:
        now = [1000.0]
        with GitServer(tmp_path / "git") as server:
            repositories = Repositories(tmp_path / "mirrors", Transport(("http",)), clock=lambda: now[0])
            yield server, GitRepo(tmp_path / "git"), repositories, now

    def test_a_new_name_is_asked_for_at_once(self, site: tuple[GitServer, GitRepo, Repositories, list[float]]) -> None:
        server, repo, repositories, now = site
        commit = repo.commit({"a.yaml": "a: 1"})
        main = GitSource(repo_url=server.url("origin.git"), revision="main")
        feature = GitSource(repo_url=server.url("origin.git"), revision="feature")
        assert repositories.resolve(main, Credentials(), max_age=90) == commit
        git(repo.work, "push", "-q", "origin", "HEAD:refs/heads/feature")
        now[0] += 1
        assert repositories.resolve(feature, Credentials(), max_age=90) == commit
        assert repositories.resolve(main, Credentials(), max_age=90) == commit
        assert server.listings == 2

    def test_applications_share_that_a_name_is_missing_for_a_moment(
        self, site: tuple[GitServer, GitRepo, Repositories, list[float]]
    ) -> None:
        server, repo, repositories, now = site
        repo.commit({"a.yaml": "a: 1"})
        feature = GitSource(repo_url=server.url("origin.git"), revision="feature")
        for _ in range(20):
            with pytest.raises(MissingRevision):
                repositories.resolve(feature, Credentials(), max_age=90)
        assert server.listings == 1
        now[0] += 10
        with pytest.raises(MissingRevision):
            repositories.resolve(feature, Credentials(), max_age=90)
        assert server.listings == 2
        with pytest.raises(MissingRevision):  # a requested sync asks whatever was answered
            repositories.resolve(feature, Credentials())
        assert server.listings == 3


class TestRevokedCredentials:
    """Applications share a mirror; credentials that the server does not accept any more read nothing of it."""

    ADA = Credentials(username="ada", password="right")
    BOB = Credentials(username="bob", password="right")

    def test_denied_credentials_stop_reading_what_others_fetched(self, tmp_path: Path) -> None:
        with GitServer(tmp_path / "git") as server:
            server.accepted = {"ada:right", "bob:right"}
            commit = GitRepo(tmp_path / "git").commit({"a.yaml": "a: 1"})
            source = GitSource(repo_url=server.url("origin.git"), revision="main")
            repositories = Repositories(tmp_path / "mirrors", Transport(("http",)))
            for credentials in (self.ADA, self.BOB):
                assert repositories.resolve(source, credentials) == commit
                repositories.snapshot(source, credentials, commit)
            server.accepted = {"ada:right"}
            with pytest.raises(SourceDenied):
                repositories.resolve(source, self.BOB)
            for reader in (repositories, Repositories(tmp_path / "mirrors", Transport(("http",)))):
                with pytest.raises(SourceDenied):
                    reader.snapshot(source, self.BOB, commit)
                assert reader.snapshot(source, self.ADA, commit).commit.id == commit
            server.accepted = {"ada:right", "bob:right"}
            assert repositories.snapshot(source, self.BOB, commit).commit.id == commit

    def test_credentials_of_a_fixed_commit_are_shown_again_each_hour(self, tmp_path: Path) -> None:
        now = [1000.0]
        with GitServer(tmp_path / "git") as server:
            server.accepted = {"bob:right"}
            commit = GitRepo(tmp_path / "git").commit({"a.yaml": "a: 1"})
            fixed = GitSource(repo_url=server.url("origin.git"), revision=commit)
            repositories = Repositories(tmp_path / "mirrors", Transport(("http",)), clock=lambda: now[0])
            repositories.snapshot(fixed, self.BOB, commit)
            listings = server.listings
            now[0] += 3000
            repositories.snapshot(fixed, self.BOB, commit)
            assert server.listings == listings
            now[0] += 3600
            server.failures[""] = 503
            assert repositories.snapshot(fixed, self.BOB, commit).commit.id == commit, "an outage revokes nothing"
            now[0] += 3600
            server.failures.clear()
            server.accepted = set()
            with pytest.raises(SourceDenied):
                repositories.snapshot(fixed, self.BOB, commit)


def test_more_refs_than_the_limit_are_refused_in_bounded_memory(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit({"app/a.yaml": "a: 1"})
    limited = Repositories(tmp_path / "limited", Transport(("http",), limits=SourceLimits(refs_bytes=40)))
    with pytest.raises(SourceUnavailable, match="lists branches and tags of more than 0 MiB"):
        limited.resolve(source_of(repo), NO_CREDENTIALS)


def test_a_large_file_is_streamed_within_the_memory_of_git(repo: GitRepo, tmp_path: Path) -> None:
    """100 MiB that a pack of 100 KB expands to; held in memory, git would end at this limit."""
    commit = repo.commit({"app/a.yaml": "a: 1", "zeros.bin": bytes(100 << 20)})
    limited = Repositories(tmp_path / "limited", Transport(("http",), limits=SourceLimits(memory_bytes=64 << 20)))
    assert limited.snapshot(source_of(repo), NO_CREDENTIALS, commit).tree.read("app/a.yaml") == b"a: 1"


def test_forced_pushes_do_not_fill_the_disk(repo: GitRepo, tmp_path: Path) -> None:
    now = [0.0]
    limits = SourceLimits(mirror_bytes=1 << 20)
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",), limits=limits), clock=lambda: now[0])
    base = repo.commit({"app/a": "0"})
    sizes = []
    for number in range(6):
        git(repo.work, "reset", "-q", "--hard", base)
        commit = repo.commit({"app/a": random.Random(number).randbytes(400 << 10)}, push=False)
        git(repo.work, "push", "-q", "--force", "origin", "main")
        now[0] += 61
        assert repositories.resolve(source_of(repo), NO_CREDENTIALS) == commit
        repositories.snapshot(source_of(repo), NO_CREDENTIALS, commit)
        sizes.append(size_of(tmp_path / "mirrors"))
    assert max(sizes) < 1.5 * (1 << 20)


def test_a_history_that_takes_too_much_of_the_disk_is_reported(repo: GitRepo, tmp_path: Path) -> None:
    commit = repo.commit({"app/a": random.Random(0).randbytes(400 << 10)})
    limited = Repositories(tmp_path / "limited", Transport(("http",), limits=SourceLimits(mirror_bytes=200 << 10)))
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"the history of main takes more than .*raise GITSYNC_GIT_MIRROR"):
            limited.snapshot(source_of(repo), NO_CREDENTIALS, commit)
        assert size_of(tmp_path / "limited") < 100 << 10


def test_a_pack_that_needs_too_much_memory_is_reported(repo: GitRepo, tmp_path: Path) -> None:
    texts = {f"app/{number}.txt": f"{number}\n" + "x" * (15 << 20) for number in range(2)}
    commit = repo.commit({"app/a.yaml": "a: 1", **texts})
    limited = Repositories(tmp_path / "limited", Transport(("http",), limits=SourceLimits(memory_bytes=20 << 20)))
    with pytest.raises(
        SourceUnavailable, match=r"git needs more memory .* limit of 20 MiB; .*raise GITSYNC_GIT_MEMORY"
    ):
        limited.fetch(source_of(repo), NO_CREDENTIALS, commit)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path) as made:
        yield made


def test_a_mirror_is_deleted_when_no_application_uses_it_at_two_checks(tmp_path: Path, server: GitServer) -> None:
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",)))
    sources = []
    for name in ("kept", "left"):
        repo = GitRepo(tmp_path / name)
        repo.commit({"a.yaml": name})
        sources.append(GitSource(repo_url=server.url(f"{name}/origin.git")))
        repositories.snapshot(sources[-1], NO_CREDENTIALS, repositories.resolve(sources[-1], NO_CREDENTIALS)).tree.read(
            "a.yaml"
        )
    kept, left = sources
    urls = {kept.repo_url}
    cleanup = MirrorCleanup(repositories, lambda: urls)
    files = sorted((tmp_path / "mirrors").iterdir())
    assert len(files) == 4
    cleanup.clean()
    urls.add(left.repo_url)
    cleanup.clean()
    urls.remove(left.repo_url)
    cleanup.clean()
    assert sorted((tmp_path / "mirrors").iterdir()) == files, "it was used again in between"
    (unused,) = repositories.unused_mirrors(urls)
    with FileLock(tmp_path / "mirrors" / f"{unused}.lock"):
        cleanup.clean()
        assert sorted((tmp_path / "mirrors").iterdir()) == files, "another process uses it"
    cleanup.clean()
    assert len(list((tmp_path / "mirrors").iterdir())) == 2
    commit = repositories.resolve(left, NO_CREDENTIALS)
    assert repositories.snapshot(left, NO_CREDENTIALS, commit).tree.read("a.yaml") == b"left"
    assert (
        repositories.snapshot(kept, NO_CREDENTIALS, repositories.resolve(kept, NO_CREDENTIALS)).tree.read("a.yaml")
        == b"kept"
    )


def test_the_cleanup_runs_by_itself_until_it_is_stopped(tmp_path: Path, server: GitServer) -> None:
    repo = GitRepo(tmp_path / "git")
    repo.commit({"a.yaml": "1"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("http",)))
    repositories.resolve(GitSource(repo_url=server.url("git/origin.git")), NO_CREDENTIALS)
    cleanup = MirrorCleanup(repositories, frozenset, every=0.02)
    cleanup.start()
    until(lambda: not list((tmp_path / "mirrors").iterdir()))
    cleanup.stop()


def packs_and_objects(git_dir: Path) -> tuple[int, int]:
    """Return how many packs a repository has, and how many objects in files of their own."""
    counts = dict(line.split(": ") for line in git(git_dir, "count-objects", "-v").splitlines())
    return int(counts["packs"]), int(counts["count"])


def all_objects(git_dir: Path) -> set[str]:
    return set(git(git_dir, "cat-file", "--batch-all-objects", "--batch-check").splitlines())


@pytest.mark.parametrize("files", [1, 120], ids=["single objects", "packs"])
def test_the_objects_of_many_fetches_are_put_into_few_packs(
    repo: GitRepo, repositories: Repositories, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    monkeypatch.setattr(mirror_module, "_MANY_PACKS", 2)
    monkeypatch.setattr(mirror_module, "_MANY_OBJECTS", -1)
    source = source_of(repo)
    snapshots = []
    for number in range(4):
        repo.commit({f"app/{name}": f"{number} {name}" for name in range(files)})
        commit = repositories.resolve(source, NO_CREDENTIALS)
        snapshots.append(repositories.snapshot(source, NO_CREDENTIALS, commit))
        assert snapshots[-1].tree.read("app/0") == f"{number} 0".encode()
    git_dir = Path(snapshots[0].git_dir)
    # such as a merge that a preview made
    git(git_dir, "hash-object", "-w", "--stdin", stdin=b"of no ref")
    before = all_objects(git_dir)
    assert sum(packs_and_objects(git_dir)) > 3
    repositories.repack()
    packs, single = packs_and_objects(git_dir)
    # each is at least twice as large as the next one
    assert packs <= 2
    assert not single
    assert all_objects(git_dir) == before
    assert [snapshot.tree.read("app/0") for snapshot in snapshots] == [f"{number} 0".encode() for number in range(4)]
    commit = repo.commit({"app/0": "later"})
    assert repositories.resolve(source, NO_CREDENTIALS) == commit
    assert repositories.snapshot(source, NO_CREDENTIALS, commit).tree.read("app/0") == b"later"


def test_a_mirror_of_few_objects_is_not_repacked(
    repo: GitRepo, repositories: Repositories, git_processes: GitProcesses
) -> None:
    repo.commit({"app/a": "1"})
    source = source_of(repo)
    repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS))
    git_processes.forget()
    MirrorCleanup(repositories, lambda: {repo.url}).clean()
    assert not git_processes.counts()


def test_a_mirror_that_is_fetched_is_repacked_later(
    repo: GitRepo, repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "_MANY_PACKS", -1)
    repo.commit({"app/a": "1"})
    source = source_of(repo)
    snapshot = repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS))
    git_dir = Path(snapshot.git_dir)
    git(git_dir, "hash-object", "-w", "--stdin", stdin=b"a")
    with FileLock(git_dir.with_suffix(".lock")):
        repositories.repack()
        assert packs_and_objects(git_dir)[1] == 1
    repositories.repack()
    assert packs_and_objects(git_dir)[1] == 0


def test_mirrors_that_cannot_be_repacked_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Git before 2.32 knows no ``--geometric``."""
    monkeypatch.setattr(mirror_module, "_MANY_PACKS", -1)
    monkeypatch.setattr(mirror_module, "_REPACK", ("repack", "--unknown-option"))
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    snapshots = []
    for name in ("one", "two"):
        repo = GitRepo(tmp_path / name)
        repo.commit({"app/a": name})
        source = source_of(repo)
        snapshots.append(repositories.snapshot(source, NO_CREDENTIALS, repositories.resolve(source, NO_CREDENTIALS)))
    repositories.repack()
    for name, snapshot in zip(("one", "two"), snapshots, strict=True):
        warning = f"the mirror of file://{tmp_path}/{name}/origin.git was not repacked: error: unknown option"
        assert warning in caplog.text
        assert snapshot.tree.read("app/a") == name.encode()
