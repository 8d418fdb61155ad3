"""Keys, and commits that are signed, or not signed, as the words of a case say."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.git_repository import ENV, git


class Signers:
    """A trusted key, an unknown key and an expired key, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        for name in ("trusted", "unknown", "expired"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
            )

    @property
    def keys(self) -> dict[str, str]:
        """What the Secret of trusted keys holds: the trusted key, and the one whose time is over."""
        expired = (self._folder / "expired.pub").read_text()
        return {
            "trusted.pub": (self._folder / "trusted.pub").read_text(),
            "allowed_signers": f'* valid-before="20200101" {expired}',
        }

    def sign(self, repo: Path, how: str) -> str:
        """Put a commit like the newest one in its place, signed as the words say, and return its id."""
        head = git(repo, "rev-parse", "main")
        raw = git(repo, "cat-file", "commit", head)
        if how == "unsigned":
            return head
        key = next(name for name in ("unknown", "expired", "trusted") if name in how or name == "trusted")
        signature = subprocess.run(
            ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(self._folder / key)],
            input=f"{raw}\n".encode(), env=ENV, check=True, capture_output=True,
        ).stdout.decode().rstrip("\n")  # fmt: skip
        if "corrupt" in how or "rewritten" in how:
            raw = raw.replace("author ", "author not ", 1)
        header, _, message = raw.partition("\n\n")
        indented = signature.replace("\n", "\n ")
        text = f"{header}\ngpgsig {indented}\n\n{message}\n"
        commit = git(repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode())
        git(repo, "update-ref", "refs/heads/main", commit)
        return commit
