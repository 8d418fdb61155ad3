"""Commit new contents of files, in the object database of a mirror and without a work tree."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gitsync.errors import Refused
from gitsync.ports.source import FileEdit
from gitsync.source.mirror import Mirror
from gitsync.source.revert import identity_of


def make_edit(mirror: Mirror, edit: FileEdit, branch_head: str = "") -> str:
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
    message = edit.message.encode()
    return mirror.git("commit-tree", tree, *parents, stdin=message, env=identity_of(edit.author)).decode().strip()
