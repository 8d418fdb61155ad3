"""Who signed a revision: the signatures of its commits, or of its tag, by the keys that may sign what they change."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.objects.signers import Signer, Trust
from gitsync.ports import Revision, Tag
from gitsync.source.git import GitFailed, environment, run
from gitsync.source.signatures import Kind, keyring, refused, verify_object
from gitsync.source.validation import clean_path

_Known = Sequence[tuple[Signer, Mapping[str, str]]]
"""Signers, each with the environment in which git knows its keys."""


def verify_revision(revision: Revision, trust: Trust) -> None:
    """
    Raise Refused unless all commits after the applied one are signed by keys that may sign what they change.

    A signed commit on top of an unsigned one would otherwise apply both. Without an applied commit, or where it is not
    in the mirror, only the commit itself is verified, and its keys have to cover every file of the folder too. The
    signature of a tag is accepted in place of those of its commits if a signer sets ``tags: true``.
    """
    for signers in trust:
        if not any(key.strip() for signer in signers for key in signer.keys):
            raise InvalidInput(
                "no trusted keys are named",
                location="spec.source.verify",
                hint="name a Secret with public keys: secretRef",
            )
        with contextlib.ExitStack() as stack:
            known = [(signer, stack.enter_context(keyring(signer.keys))) for signer in signers]
            _Verification(revision, known).run()


class _Verification:
    """Verify one revision by one set of signers."""

    def __init__(self, revision: Revision, known: _Known) -> None:
        self._revision = revision
        self._git_dir = Path(revision.git_dir)
        self._known = known
        self._env = environment(())
        self._names_files = any(signer.paths != ("*",) for signer, _ in known)

    def run(self) -> None:
        """Verify the tag, or else each commit."""
        earlier, tag = self._earlier(), self._revision.tag
        commits = [self._revision.commit, *(earlier or ())]
        vouched = self._files() if earlier is None else frozenset[str]()
        if tag is not None and self._is_signed(tag, vouched | self._changed(commits)):
            return
        for number, id in enumerate(commits):
            self._check("commit", id, self._changed([id]) | (frozenset() if number else vouched), self._known)

    def _earlier(self) -> list[str] | None:
        """Return the commits between the applied commit and this one; None if no applied commit is in the mirror."""
        since, commit = self._revision.since, self._revision.commit
        if not since:
            return None
        try:
            run(self._git_dir, "cat-file", "-e", f"{since}^{{commit}}", env=self._env)
        except GitFailed:
            return None
        return self._git("rev-list", "--skip=1", commit, f"^{since}").split()

    def _is_signed(self, tag: Tag, changed: frozenset[str]) -> bool:
        """Return whether a tag is signed by keys that may sign all that its commits change."""
        taggers = [(signer, env) for signer, env in self._known if signer.tags]
        header, _, _ = self._git("cat-file", "tag", tag.id).partition("\n\n") if taggers else ("", "", "")
        if f"\ntag {tag.name}\n" not in f"{header}\n":
            return False  # a ref may be moved to the signed tag of another version
        try:
            self._check("tag", tag.id, changed, taggers)
        except Refused:
            return False
        return True

    def _files(self) -> frozenset[str]:
        """Return the files of the folder, where it matters which these are."""
        if not self._names_files:
            return frozenset()
        names = _names(self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", self._revision.commit))
        folder = clean_path(self._revision.path)
        return frozenset(name for name in names if not folder or name.startswith(f"{folder}/"))

    def _changed(self, commits: Iterable[str]) -> frozenset[str]:
        """
        Return the files that commits change, where it matters which these are.

        A merge changes what differs from the automatic merge of its parents, and one of more than two parents what
        differs from any of them.
        """
        if not self._names_files:
            return frozenset()
        return frozenset(name for commit in commits for name in self._changed_by(commit))

    def _changed_by(self, commit: str) -> list[str]:
        parents = len(self._git("rev-list", "--parents", "--max-count=1", commit).split()) - 1
        merge = "-m" if parents > 2 else "--remerge-diff"
        options = ("--format=", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        return _names(self._git("show", merge, *options, commit))

    def _check(self, kind: Kind, id: str, paths: Collection[str], known: _Known) -> None:
        """Raise Refused unless keys that may sign a change of all these files signed a commit or a tag."""
        left, key, refusals = frozenset(paths), "", []
        for signer, env in known:
            rest = signer.unsigned(left)
            if key and rest == left:
                continue
            try:
                key = verify_object(self._git_dir, kind, id, env)
                left = rest
            except Refused as refusal:
                refusals.append(refusal)
            if key and not left:
                return
        if not key:
            raise next((one for one in refusals if "not among" not in one.message), refusals[0])
        more = f" and {len(left) - 1} more files" if len(left) > 1 else ""
        raise refused(kind, id, f"its key may not sign a change of {min(left)}{more}", key)

    def _git(self, *arguments: str) -> str:
        try:
            return run(self._git_dir, *arguments, env=self._env).decode(errors="surrogateescape")
        except GitFailed as error:
            commit = self._revision.commit[:12]
            raise SourceUnavailable(f"the signatures of {commit} cannot be verified: {error}") from error


def _names(listed: str) -> list[str]:
    """Return names that git divides by NUL."""
    return [name for name in listed.split("\0") if name]
