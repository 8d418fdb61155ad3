"""Signatures of commits, made with real SSH and OpenPGP keys."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, Refused
from gitsync.objects.application import GitSource
from gitsync.objects.signers import Signer
from gitsync.ports import Credentials, FileEdit, SourceRevision, Tag
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.source.signatures import signing_users, verify_revision
from tests.git_repository import ENV, GitRepo, git, ssh_key

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "git")


def signed(repo: GitRepo, key: Path, text: str = "a") -> str:
    (repo.work / "file").write_text(text)
    git(repo.work, "add", "-A")
    config = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}.pub")
    git(repo.work, *config, "commit", "-q", "-S", "-m", f"Signed {text}")
    return git(repo.work, "rev-parse", "HEAD")


def git_dir(repo: GitRepo) -> Path:
    return repo.work / ".git"


def verify_commit(folder: Path, commit: str, trusted: dict[str, str], since: str = "") -> None:
    """Verify a commit with the keys of a Secret."""
    signers = (Signer(keys=tuple(trusted.values()) or ("",)),)
    verify_revision(SourceRevision(str(folder), commit, since=since), (signers,))


def test_a_commit_signed_by_a_trusted_ssh_key_passes(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    commit = signed(repo, key)
    verify_commit(git_dir(repo), commit, {"a.pub": key.with_suffix(".pub").read_text()})


def test_an_unsigned_commit_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    commit = repo.commit({"file": "a"})
    with pytest.raises(Refused, match=rf"signature of commit {commit[:12]} is not accepted: it is not signed"):
        verify_commit(git_dir(repo), commit, {"a.pub": key.with_suffix(".pub").read_text()})


def test_an_unknown_key_is_refused_and_named(repo: GitRepo, tmp_path: Path) -> None:
    commit = signed(repo, ssh_key(tmp_path, "unknown"))
    trusted = ssh_key(tmp_path, "trusted").with_suffix(".pub").read_text()
    with pytest.raises(Refused, match=r"not among the trusted ones.*SHA256:"):
        verify_commit(git_dir(repo), commit, {"a.pub": trusted})


def test_an_expired_ssh_key_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "old")
    commit = signed(repo, key)
    line = f'* valid-before="20200101" {key.with_suffix(".pub").read_text()}'
    with pytest.raises(Refused, match=r"signature of commit"):
        verify_commit(git_dir(repo), commit, {"allowed_signers": line})


def test_a_rewritten_tree_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    first, second = signed(repo, key, "a"), signed(repo, key, "b")
    raw = git(repo.work, "cat-file", "commit", second)
    tree, other = git(repo.work, "rev-parse", f"{second}^{{tree}}"), git(repo.work, "rev-parse", f"{first}^{{tree}}")
    forged = git(
        repo.work, "hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{raw.replace(tree, other)}\n".encode()
    )
    with pytest.raises(Refused, match=r"does not fit the commit"):
        verify_commit(git_dir(repo), forged, {"a.pub": key.with_suffix(".pub").read_text()})


def test_without_keys_the_setting_is_at_fault(repo: GitRepo) -> None:
    with pytest.raises(InvalidInput, match="no trusted keys"):
        verify_commit(git_dir(repo), repo.commit({"file": "a"}), {})


def test_each_commit_since_the_applied_one_is_verified(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    trusted = {"a.pub": key.with_suffix(".pub").read_text()}
    first = repo.commit({"file": "unsigned before the Application"})
    applied = signed(repo, key, "a")
    unsigned = repo.commit({"other": "b"})
    head = signed(repo, key, "c")
    verify_commit(git_dir(repo), head, trusted, head)
    verify_commit(git_dir(repo), head, trusted, unsigned)
    verify_commit(git_dir(repo), applied, trusted, head)  # back to an earlier commit
    verify_commit(git_dir(repo), head, trusted)  # nothing was applied yet
    for since in (applied, first):
        with pytest.raises(Refused, match=rf"signature of commit {unsigned[:12]} is not accepted: it is not signed"):
            verify_commit(git_dir(repo), head, trusted, since)


def test_the_users_of_the_keys_that_signed_are_known(repo: GitRepo, tmp_path: Path) -> None:
    ada = ssh_key(tmp_path, "ada")
    bob = ssh_key(tmp_path, "bob")
    trust = (
        tuple(Signer(keys=(key.with_suffix(".pub").read_text(),), users=(key.name,)) for key in (ada, bob)),
        (Signer(keys=(ada.with_suffix(".pub").read_text(),)),),
    )
    first = signed(repo, ada, "a")
    second = signed(repo, bob, "b")
    unsigned = repo.commit({"file": "c"})

    assert signing_users(git_dir(repo), {first: ""}, trust) == {"ada"}
    assert signing_users(git_dir(repo), dict.fromkeys((unsigned, second, first), ""), trust) == {"ada", "bob"}
    assert signing_users(git_dir(repo), {unsigned: ""}, trust) == frozenset()


def test_the_commits_of_a_merged_branch_are_verified(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    trusted = {"a.pub": key.with_suffix(".pub").read_text()}
    applied = signed(repo, key, "a")
    git(repo.work, "checkout", "-q", "-b", "side")
    side = repo.commit({"side": "b"}, push=False)
    git(repo.work, "checkout", "-q", "main")
    config = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}.pub")
    git(repo.work, *config, "merge", "-q", "--no-ff", "-S", "-m", "Merge side", "side")
    with pytest.raises(Refused, match=f"signature of commit {side[:12]} is not accepted"):
        verify_commit(git_dir(repo), git(repo.work, "rev-parse", "HEAD"), trusted, applied)


@pytest.fixture
def gpg_home(tmp_path: Path) -> Iterator[dict[str, str]]:
    home = Path("/tmp") / f"gs-{tmp_path.name[-20:]}"  # the agent's socket must have a short name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    yield {"GNUPGHOME": str(home), "PATH": "/usr/bin:/bin"}
    subprocess.run(["gpgconf", "--kill", "all"], env={"GNUPGHOME": str(home), "PATH": "/usr/bin:/bin"}, check=False)
    shutil.rmtree(home, ignore_errors=True)


def gpg(home: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        ["gpg", "--batch", "--quiet", *arguments], env=home, check=True, capture_output=True
    ).stdout.decode()


def gpg_signed(repo: GitRepo, home: dict[str, str], user: str) -> str:
    (repo.work / "file").write_text(user)
    git(repo.work, "add", "-A")
    subprocess.run(["git", "commit", "-q", f"-S{user}", "-m", "Signed"], cwd=repo.work, env={**ENV, **home}, check=True)
    return git(repo.work, "rev-parse", "HEAD")


@needs_gpg
def test_openpgp_keys_are_known_unknown_and_good(repo: GitRepo, gpg_home: dict[str, str]) -> None:
    for user in ("ada@example.test", "eve@example.test"):
        gpg(gpg_home, "--passphrase", "", "--quick-generate-key", user, "ed25519", "sign", "0")
    trusted = {"ada.asc": gpg(gpg_home, "--armor", "--export", "ada@example.test")}
    verify_commit(git_dir(repo), gpg_signed(repo, gpg_home, "ada@example.test"), trusted)
    with pytest.raises(Refused, match=r"not among the trusted ones \(key [0-9A-F]+\)"):
        verify_commit(git_dir(repo), gpg_signed(repo, gpg_home, "eve@example.test"), trusted)


@needs_gpg
def test_a_tag_signed_by_openpgp_counts_for_its_commits(repo: GitRepo, gpg_home: dict[str, str]) -> None:
    gpg(gpg_home, "--passphrase", "", "--quick-generate-key", "ada@example.test", "ed25519", "sign", "0")
    commit = repo.commit({"file": "unsigned"})
    subprocess.run(
        ["git", "tag", "-u", "ada@example.test", "-m", "Release", "v1"],
        cwd=repo.work, env={**ENV, **gpg_home}, check=True,
    )  # fmt: skip
    tag = Tag(git(repo.work, "rev-parse", "v1"), "v1")
    signer = Signer(keys=(gpg(gpg_home, "--armor", "--export", "ada@example.test"),), tags=True)
    verify_revision(SourceRevision(str(git_dir(repo)), commit, tag=tag), ((signer,),))


class Team:
    """A repository with keys of some people, each signing by SSH."""

    def __init__(self, repo: GitRepo, folder: Path) -> None:
        self.repo = repo
        self._keys = {name: ssh_key(folder, name) for name in ("shop", "docs", "lead")}

    def signer(self, name: str, *paths: str, tags: bool = False) -> Signer:
        key = self._keys[name].with_suffix(".pub").read_text()
        return Signer(keys=(key,), paths=paths or ("*",), tags=tags)

    def git(self, name: str, *arguments: str) -> str:
        config = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={self._keys[name]}.pub")
        return git(self.repo.work, *config, *arguments)

    def commit(self, name: str, path: str, text: str) -> str:
        (self.repo.work / path).parent.mkdir(exist_ok=True)
        (self.repo.work / path).write_text(text)
        git(self.repo.work, "add", "-A")
        self.git(name, "commit", "-q", "-S", "-m", f"{path} {text}")
        return git(self.repo.work, "rev-parse", "HEAD")

    def verify(self, commit: str, signers: tuple[Signer, ...], since: str = "", tag: Tag | None = None) -> None:
        verify_revision(SourceRevision(str(git_dir(self.repo)), commit, "shop", since, tag), (signers,))


@pytest.fixture
def team(repo: GitRepo, tmp_path: Path) -> Team:
    return Team(repo, tmp_path)


def test_keys_sign_the_files_that_they_are_named_for(team: Team) -> None:
    signers = (team.signer("shop", "shop/*"), team.signer("docs", "docs/*", "shop/README"), team.signer("lead"))
    first = team.commit("lead", "shop/a.yaml", "1")
    shop = team.commit("shop", "shop/sub.yaml", "1")
    docs = team.commit("docs", "docs/a.md", "1")
    team.verify(docs, signers, first)
    team.verify(shop, signers, first)
    wrong = team.commit("docs", "shop/a.yaml", "2")
    with pytest.raises(Refused, match=rf"commit {wrong[:12]} .*its key may not sign a change of shop/a.yaml \(key SHA"):
        team.verify(wrong, signers, docs)
    later = team.commit("shop", "shop/b.yaml", "1")
    with pytest.raises(Refused, match=wrong[:12]):
        team.verify(later, signers, docs)
    with pytest.raises(Refused, match=r"a change of docs/a.md"):
        team.verify(docs, (team.signer("docs", "shop/*"),), shop)


def test_a_deleted_and_a_renamed_file_count_by_their_old_names(team: Team) -> None:
    signers = (team.signer("lead"), team.signer("docs", "docs/*"))
    (team.repo.work / "docs").mkdir()
    first = team.commit("lead", "shop/a.yaml", "1")
    git(team.repo.work, "mv", "shop/a.yaml", "docs/a.yaml")
    moved = team.commit("docs", "docs/b.md", "1")
    with pytest.raises(Refused, match=r"a change of shop/a.yaml"):
        team.verify(moved, signers, first)


def test_the_first_commit_needs_keys_for_every_file_of_the_folder(team: Team) -> None:
    team.repo.commit({"shop/a.yaml": "unsigned"})
    head = team.commit("docs", "docs/a.md", "1")
    with pytest.raises(Refused, match=r"a change of shop/a.yaml"):
        team.verify(head, (team.signer("docs", "docs/*"),))
    team.verify(head, (team.signer("docs", "docs/*", "shop/*"),))


def test_a_merge_is_signed_for_what_it_changes_itself(team: Team) -> None:
    signers = (team.signer("shop", "shop/*"), team.signer("docs", "docs/*"))
    first = team.commit("shop", "shop/a.yaml", "1")
    git(team.repo.work, "checkout", "-q", "-b", "side")
    team.commit("shop", "shop/a.yaml", "2")
    git(team.repo.work, "checkout", "-q", "main")
    team.commit("docs", "docs/a.md", "1")
    team.git("docs", "merge", "-q", "--no-ff", "-S", "-m", "Merge", "side")
    team.verify(git(team.repo.work, "rev-parse", "HEAD"), signers, first)
    team.git("docs", "reset", "-q", "--hard", "HEAD^")
    team.git("docs", "merge", "-q", "--no-ff", "-S", "-s", "ours", "-m", "Drop the change of side", "side")
    with pytest.raises(Refused, match=r"a change of shop/a.yaml"):
        team.verify(git(team.repo.work, "rev-parse", "HEAD"), signers, first)


def test_a_merge_of_many_branches_is_signed_for_all_of_them(team: Team) -> None:
    signers = (team.signer("shop", "shop/*"), team.signer("docs", "docs/*"))
    first = team.commit("shop", "shop/a.yaml", "1")
    for name in ("one", "two"):
        git(team.repo.work, "checkout", "-q", "-b", name, first)
        team.commit("shop", f"shop/{name}.yaml", "1")
    git(team.repo.work, "checkout", "-q", "-b", "all", first)
    team.commit("docs", "docs/a.md", "1")
    team.git("docs", "merge", "-q", "--no-ff", "-S", "-m", "Merge", "one", "two")
    with pytest.raises(Refused, match=r"a change of shop/one.yaml"):
        team.verify(git(team.repo.work, "rev-parse", "HEAD"), signers, first)


def test_a_signed_tag_counts_for_its_commits_where_its_signer_may_sign_tags(team: Team) -> None:
    first = team.commit("lead", "shop/a.yaml", "1")
    unsigned = team.repo.commit({"shop/a.yaml": "2"})
    team.git("lead", "tag", "-s", "-m", "Release", "v1")
    tag = Tag(git(team.repo.work, "rev-parse", "v1"), "v1")
    team.verify(unsigned, (team.signer("lead", tags=True),), first, tag)
    team.verify(unsigned, (team.signer("lead", "shop/*", tags=True),), "", tag)
    refused = {
        "no signer of tags": ((team.signer("lead"),), tag),
        "another key": ((team.signer("lead"), team.signer("docs", tags=True)), tag),
        "a tag for other files": ((team.signer("lead", "docs/*", tags=True),), tag),
        "the tag of another version": ((team.signer("lead", tags=True),), Tag(tag.id, "v2")),
        "no tag": ((team.signer("lead", tags=True),), None),
    }
    for signers, given in refused.values():
        with pytest.raises(Refused, match=rf"signature of commit {unsigned[:12]} is not accepted: it is not signed"):
            team.verify(unsigned, signers, first, given)


def test_the_tag_that_a_revision_names_is_fetched(team: Team, tmp_path: Path) -> None:
    repositories, anonymous = Repositories(tmp_path / "mirrors", Transport(("file",))), Credentials()
    commit = team.repo.commit({"shop/a.yaml": "1"})
    follow = lambda revision: GitSource(repo_url=team.repo.url, revision=revision)  # noqa: E731
    repositories.snapshot(follow("main"), anonymous, repositories.resolve(follow("main"), anonymous))
    team.git("lead", "tag", "-s", "-m", "Release", "v1.0.0")
    git(team.repo.work, "tag", "light")
    git(team.repo.work, "push", "-q", "--tags", "origin")
    for revision in ("v1.0.0", "refs/tags/v1.0.0", "1.x"):
        assert repositories.resolve(follow(revision), anonymous) == commit
        tag = repositories.tag(follow(revision), anonymous, commit)
        assert tag == Tag(git(team.repo.work, "rev-parse", "v1.0.0"), "v1.0.0")
        snapshot = repositories.snapshot(follow(revision), anonymous, commit)
        verify_revision(SourceRevision(snapshot.git_dir, commit, tag=tag), ((team.signer("lead", tags=True),),))
    for revision in ("light", "main", commit):
        assert repositories.tag(follow(revision), anonymous, commit) is None


@pytest.mark.parametrize("kind", ["edit", "revert"])
def test_commits_of_gitsync_are_signed_by_the_key_of_the_secret(repo: GitRepo, tmp_path: Path, kind: str) -> None:
    key = ssh_key(tmp_path, "bot")
    repo.commit({"file": "a"})
    head = repo.commit({"file": "b"})
    source = GitSource(repo_url=repo.url)
    credentials = Credentials(signing_key=key.read_text())
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    if kind == "edit":
        edit = FileEdit(head, {"file": b"c"}, "Update images\n", "Ada <ada@example.test>", "gitsync/images-shop")
        made = repositories.edit(source, credentials, edit)[0]
    else:
        made = repositories.revert(source, credentials, [head], author="Ada", branch="revert/1").commit
    pushed = git(repo.work, "ls-remote", "origin", "refs/heads/gitsync/images-shop", "refs/heads/revert/1").split()[0]
    assert pushed == made.id
    git(repo.work, "fetch", "-q", "origin", pushed)
    verify_commit(git_dir(repo), pushed, {"a.pub": key.with_suffix(".pub").read_text()})
    repositories.close()


def test_a_key_that_cannot_sign_pushes_nothing(repo: GitRepo, tmp_path: Path) -> None:
    head = repo.commit({"file": "a"})
    repositories = Repositories(tmp_path / "mirrors", Transport(("file",)))
    edit = FileEdit(head, {"file": b"c"}, "Update images\n", "Ada", "gitsync/images-shop")
    with pytest.raises(InvalidInput, match="signing-privatekey: the key cannot sign commits") as failed:
        repositories.edit(GitSource(repo_url=repo.url), Credentials(signing_key="not a key"), edit)
    assert "/proc/" not in str(failed.value)
    assert git(repo.work, "ls-remote", "origin", "refs/heads/gitsync/*") == ""
    repositories.close()
