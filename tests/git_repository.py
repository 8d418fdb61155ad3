"""A real Git repository on disk for tests: an origin that is bare, and a clone to commit in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada Writer",
    "GIT_AUTHOR_EMAIL": "ada@example.test",
    "GIT_COMMITTER_NAME": "Ada Writer",
    "GIT_COMMITTER_EMAIL": "ada@example.test",
    # also of the git that receives a push: half of the processes of a commit would collect garbage
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "receive.autogc",
    "GIT_CONFIG_VALUE_1": "false",
}


def git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    """Run git in a folder and return what it printed."""
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENV, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


class GitRepo:
    """An origin, served at a URL if one is given, and a clone of it; ``commit`` writes files, commits and pushes."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.origin = folder / "origin.git"
        self.url = url or f"file://{self.origin}"
        self.work = folder / "work"
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.origin))
        git(folder, "init", "-q", "-b", "main", str(self.work))
        git(self.work, "remote", "add", "origin", str(self.origin))

    def commit(
        self,
        files: dict[str, str | bytes | None] | None = None,
        message: str = "Change",
        *,
        symlinks: dict[str, str] | None = None,
        gitlinks: dict[str, str] | None = None,
        push: bool = True,
    ) -> str:
        """Write files (None removes one), commit, push, and return the commit id."""
        for path, content in (files or {}).items():
            target = self.work / path
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        git(self.work, "add", "-A")
        for path, target in (symlinks or {}).items():
            blob = git(self.work, "hash-object", "-w", "--stdin", stdin=target.encode())
            git(self.work, "update-index", "--add", "--cacheinfo", f"120000,{blob},{path}")
        for path, commit in (gitlinks or {}).items():
            git(self.work, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
        git(self.work, "commit", "-q", "--allow-empty", "-m", message)
        if push:
            git(self.work, "push", "-q", "origin", "HEAD:main")
        return git(self.work, "rev-parse", "HEAD")


def ssh_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True)
    return folder / name
