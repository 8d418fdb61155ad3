"""Commit new contents of files, in the object database of a mirror and without a work tree."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from gitsync.errors import Refused
from gitsync.source.mirror import Mirror
from gitsync.source.revert import identity_of


def make_edit(mirror: Mirror, head: str, files: Mapping[str, bytes], message: str, author: str) -> str:
    """Return the id of a commit on top of ``head`` in which files have new contents; their modes stay."""
    with tempfile.TemporaryDirectory(prefix="gitsync-edit-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        mirror.git("read-tree", head, env=index)
        for path, content in files.items():
            blob = mirror.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
            # of an executable file the mode has to stay
            mode = (
                mirror.git("ls-tree", head, "--", path, env={"GIT_LITERAL_PATHSPECS": "1"}).decode().partition(" ")[0]
            )
            mirror.git("update-index", "--add", "--cacheinfo", f"{mode or '100644'},{blob},{path}", env=index)
        tree = mirror.git("write-tree", "--missing-ok", env=index).decode().strip()
    if tree == mirror.git("rev-parse", f"{head}^{{tree}}").decode().strip():
        raise Refused("the edit would change nothing")
    return mirror.git("commit-tree", tree, "-p", head, stdin=message.encode(), env=identity_of(author)).decode().strip()
