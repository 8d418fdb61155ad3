"""Signatures of commits, made with real SSH and OpenPGP keys."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, Refused
from gitsync.source.verify import verify_commit
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


def test_a_commit_signed_by_a_trusted_ssh_key_passes(repo: GitRepo, tmp_path: Path) -> None:
    key = ssh_key(tmp_path, "trusted")
    commit = signed(repo, key)
    assert verify_commit(git_dir(repo), commit, {"a.pub": key.with_suffix(".pub").read_text()}).startswith("SHA256:")


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
    assert verify_commit(git_dir(repo), head, trusted, head)
    assert verify_commit(git_dir(repo), head, trusted, unsigned)
    assert verify_commit(git_dir(repo), applied, trusted, head), "back to an earlier commit"
    assert verify_commit(git_dir(repo), head, trusted), "nothing was applied yet"
    for since in (applied, first):
        with pytest.raises(Refused, match=rf"signature of commit {unsigned[:12]} is not accepted: it is not signed"):
            verify_commit(git_dir(repo), head, trusted, since)


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
    assert len(verify_commit(git_dir(repo), gpg_signed(repo, gpg_home, "ada@example.test"), trusted)) == 40
    with pytest.raises(Refused, match=r"not among the trusted ones \(key [0-9A-F]+\)"):
        verify_commit(git_dir(repo), gpg_signed(repo, gpg_home, "eve@example.test"), trusted)
