"""Commits made in the object database of a mirror, without a work tree: new contents of files, and reverts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.errors import InvalidInput, Refused
from gitsync.ports import CREDENTIALS_SECRET
from gitsync.ports.source import FileEdit
from gitsync.source.authentication import memory_file
from gitsync.source.git import GitFailed
from gitsync.source.mirror import Mirror

COMMITTER = ("gitsync", "gitsync@localhost")


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """Whose commit it is, as ``Name <mail>`` or a name, and the SSH key (PEM) that signs it, empty for none."""

    author: str
    signing_key: str = ""


def make_revert(mirror: Mirror, head: str, commits: Sequence[str], identity: CommitIdentity, reason: str = "") -> str:
    """
    Return the id of a commit on top of ``head`` that undoes the commits, given newest first.

    The message ends with the reason. Raise Refused when a later change
    overlaps with what is to be undone, or when nothing would change.
    """
    with tempfile.TemporaryDirectory(prefix="gitsync-revert-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        mirror.git("read-tree", head, env=index)
        for commit in commits:
            _undo(mirror, commit, index)
        tree = mirror.git("write-tree", "--missing-ok", env=index).decode().strip()
    if tree == mirror.git("rev-parse", f"{head}^{{tree}}").decode().strip():
        raise Refused("the revert would change nothing", location=commits[0][:12], hint="it was undone already")
    message = "\n".join(filter(None, (_message(mirror, commits), reason and f"{reason}\n"))).encode()
    return _committed(mirror, tree, ["-p", head], message, identity)


def _committed(mirror: Mirror, tree: str, parents: Sequence[str], message: bytes, identity: CommitIdentity) -> str:
    """Return the id of a commit of a tree, signed where there is a key; raise InvalidInput for one that cannot sign."""
    env = identity_of(identity.author)
    if not identity.signing_key:
        return mirror.git("commit-tree", tree, *parents, stdin=message, env=env).decode().strip()
    with memory_file("signing-key", identity.signing_key.strip() + "\n") as key:
        signing = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}")
        try:
            return mirror.git(*signing, "commit-tree", "-S", tree, *parents, stdin=message, env=env).decode().strip()
        except GitFailed as error:
            # without what git prints: it names the path of the key
            raise InvalidInput(
                "the key cannot sign commits",
                location=f"{CREDENTIALS_SECRET}: signing-privatekey",
                hint="give a private SSH key without a passphrase: ssh-keygen -t ed25519 -N ''",
            ) from error


def identity_of(author: str) -> dict[str, str]:
    """Return the environment of a commit by an author, ``Name <mail>`` or a name; gitsync is the committer."""
    name, _, mail = author.partition("<")
    return {
        "GIT_AUTHOR_NAME": name.strip() or COMMITTER[0],
        "GIT_AUTHOR_EMAIL": mail.strip(" >") or COMMITTER[1],
        "GIT_COMMITTER_NAME": COMMITTER[0],
        "GIT_COMMITTER_EMAIL": COMMITTER[1],
    }


def _undo(mirror: Mirror, commit: str, index: dict[str, str]) -> None:
    if len(mirror.git("rev-list", "--parents", "--max-count=1", commit).split()) < 2:
        raise Refused(
            f"commit {commit[:12]} is the first one of the repository, so there is nothing to go back to",
            hint="remove its files by a commit",
        )
    try:
        # for a merge: against its first parent, as `git revert -m 1` does
        patch = mirror.git("diff-tree", "-p", "--binary", "--full-index", "--no-renames", commit, f"{commit}^1")
        if patch:
            mirror.git("apply", "--cached", "--3way", "--whitespace=nowarn", "-", stdin=patch, env=index)
    except GitFailed as error:
        first = next((line for line in str(error).splitlines() if "error:" in line), str(error).partition("\n")[0])
        raise Refused(
            f"commit {commit[:12]} cannot be reverted by itself: {first.removeprefix('error: ')}",
            hint="revert it by hand, later changes touch the same lines",
        ) from error


def _message(mirror: Mirror, commits: Sequence[str]) -> str:
    subjects = [(commit, mirror.commit(commit).subject) for commit in commits]
    if len(subjects) == 1:
        commit, subject = subjects[0]
        return f'Revert "{subject}"\n\nThis reverts commit {commit}.\n'
    lines = "\n".join(f'This reverts commit {commit} "{subject}".' for commit, subject in subjects)
    return f"Revert {len(subjects)} commits\n\n{lines}\n"


def make_edit(mirror: Mirror, edit: FileEdit, branch_head: str = "", signing_key: str = "") -> str:
    """
    Return the id of a commit on top of ``edit.head`` in which files have new contents; their modes stay.

    With the head of the branch it is a merge of both, so that the branch is updated without force; what that branch
    had is replaced. Where it has the same files already, its head is returned.
    """
    head = edit.head
    with tempfile.TemporaryDirectory(prefix="gitsync-edit-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        mirror.git("read-tree", head, env=index)
        for path, content in edit.files.items():
            blob = mirror.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
            # of an executable file the mode has to stay
            mode = (
                mirror.git("ls-tree", head, "--", path, env={"GIT_LITERAL_PATHSPECS": "1"}).decode().partition(" ")[0]
            )
            mirror.git("update-index", "--add", "--cacheinfo", f"{mode or '100644'},{blob},{path}", env=index)
        tree = mirror.git("write-tree", "--missing-ok", env=index).decode().strip()
    if tree == mirror.git("rev-parse", f"{head}^{{tree}}").decode().strip():
        raise Refused("the edit would change nothing")
    parents = [option for parent in filter(None, (branch_head, head)) for option in ("-p", parent)]
    if branch_head:
        is_same = tree == mirror.git("rev-parse", f"{branch_head}^{{tree}}").decode().strip()
        if is_same and mirror.contains(branch_head, head):
            return branch_head
    return _committed(mirror, tree, parents, edit.message.encode(), CommitIdentity(edit.author, signing_key))
