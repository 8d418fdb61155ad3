"""Names of refs: which branch or tag a revision names. Pure."""

from __future__ import annotations

from collections.abc import Collection

from gitsync.errors import InvalidInput
from gitsync.source.semver import parse_range
from gitsync.source.validation import is_commit

HEADS, TAGS = "refs/heads/", "refs/tags/"


def find_ref(revision: str, refs: Collection[str]) -> str | None:
    """
    Return the full name of the ref that a revision names, None for a commit id and when no ref matches.

    ``refs`` are full names. A version range matches tags only, and a full name only itself: a user who may push
    branches cannot redirect an Application that follows a tag. Raise InvalidInput when a branch and a tag both match.
    """
    if is_commit(revision):
        return None
    if revision.startswith("refs/"):
        return revision if revision in refs else None
    wanted = parse_range(revision)
    if wanted is not None:
        tag = wanted.highest(name.removeprefix(TAGS) for name in refs if name.startswith(TAGS))
        return f"{TAGS}{tag}" if tag else None
    names = [name for name in (f"{HEADS}{revision}", f"{TAGS}{revision}") if name in refs]
    if len(names) > 1:
        raise InvalidInput(
            f"the revision {revision!r} is ambiguous: the repository has a branch and a tag of this name",
            location="spec.source.revision",
            hint=f"set it to {' or '.join(names)}",
        )
    return names[0] if names else None


def branch_name(revision: str) -> str | None:
    """Return the full name of the branch that a revision may name, None for a commit id, a range and a tag."""
    if is_commit(revision) or parse_range(revision) is not None:
        return None
    name = revision if revision.startswith("refs/") else f"{HEADS}{revision}"
    return name if name.startswith(HEADS) else None
