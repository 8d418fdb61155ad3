"""Names of refs: which branch or tag a revision names. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from gitsync.errors import InvalidInput
from gitsync.source.semver import parse_range
from gitsync.source.validation import is_commit

HEADS = "refs/heads/"
TAGS = "refs/tags/"
_COMMIT_LIKE = re.compile(r"[0-9A-Fa-f]{7,64}")


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


def missing_revision(revision: str, refs: Collection[str], url: str) -> InvalidInput:
    """Return the error for a revision that no ref matches, with similar names."""
    where = "spec.source.revision"
    if not refs:
        return InvalidInput(
            f"the repository {url} is empty, so {revision!r} does not exist in it",
            location=where,
            hint="push a first commit; it is applied with the next poll",
        )
    what = f"the revision {revision!r} does not exist in {url}"
    if _COMMIT_LIKE.fullmatch(revision):
        return InvalidInput(what, location=where, hint="write a commit id in full (40 or 64 digits), in small letters")
    # ^{}: the commit of an annotated tag, which ls-remote lists beside the tag itself
    names = {name.removeprefix(HEADS).removeprefix(TAGS): name for name in refs if not name.endswith("^{}")}
    similar = get_close_matches(revision, names, 5, 0.5)
    listed = "similar names" if similar else "it has, among others"
    examples = ", ".join(similar or sorted(names)[:5])
    return InvalidInput(what, location=where, hint=f"{listed}: {examples}")
