"""Fetch the large files that builds and reverts read; the first fetch into a mirror leaves out all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gitsync.objects.application import GitSource
from gitsync.ports import Credentials
from gitsync.source.git import GitFailed
from gitsync.source.left_out import left_out, manifests
from gitsync.source.mirror import Mirror
from gitsync.source.snapshot import GitTree
from gitsync.source.validation import clean_path


def fetch_manifests(
    mirror: Mirror, source: GitSource, credentials: Credentials, commit: str, max_age: float = 0.0
) -> None:
    """Fetch the manifests below a source's path."""
    if not left_out(mirror.path):
        return
    tree = GitTree(mirror.path, commit, reader=mirror.objects)
    below = tree.below(clean_path(source.path))
    files = manifests((path, entry.id) for path, entry in below)
    mirror.fetch_files(files, source.revision, commit, credentials, max_age)


def fetch_requested(mirror: Mirror, source: GitSource, credentials: Credentials, commit: str, id: str) -> None:
    """Fetch a file that a build reads, with all manifests of the commit: the build is about to read others of them."""
    tree = GitTree(mirror.path, commit, reader=mirror.objects)
    files = manifests((path, entry.id) for path, entry in tree.below(""))
    mirror.fetch_files(files | {id}, source.revision, commit, credentials)


def fetch_changed(
    mirror: Mirror, source: GitSource, credentials: Credentials, head: str, commits: Sequence[str]
) -> None:
    """Fetch the files that a revert of commits reads: what they changed, before, after and at the head."""
    if not left_out(mirror.path):
        return
    files = {id for commit in commits for id in _changed(mirror, head, commit)}
    mirror.fetch_files(files, source.revision, head, credentials)


def fetch_different(mirror: Mirror, source: GitSource, credentials: Credentials, base: str, head: str) -> None:
    """Fetch the files that a merge reads: those that differ between two commits, on both sides."""
    if not left_out(mirror.path):
        return
    trees = [GitTree(mirror.path, commit, reader=mirror.objects) for commit in (base, head)]
    files: set[str] = set()
    for path in mirror.changed_paths(base, head) or ():
        for tree in trees:
            with contextlib.suppress(KeyError):  # a side that does not have the file
                files.add(tree.blob_id(path))
    mirror.fetch_files(files, source.revision, base, credentials)


def _changed(mirror: Mirror, head: str, commit: str) -> Iterator[str]:
    with contextlib.suppress(GitFailed):  # of the first commit, which cannot be reverted, or of an unknown one
        parent = mirror.git("rev-parse", "--verify", "--quiet", f"{commit}^1").decode().strip()
        trees = [GitTree(mirror.path, revision, reader=mirror.objects) for revision in (head, commit, parent)]
        for path in mirror.changed_paths(parent, commit) or ():
            for tree in trees:
                with contextlib.suppress(KeyError):
                    yield tree.blob_id(path)
