"""Refs of a server, and which branch or tag a revision names. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, ItemsView, Iterator, Mapping, ValuesView
from difflib import get_close_matches

from gitsync.errors import InvalidInput, MissingRevision
from gitsync.objects.semver import Range, parse_range
from gitsync.source.validation import is_commit

HEADS = "refs/heads/"
TAGS = "refs/tags/"
_COMMIT_LIKE = re.compile(r"[0-9A-Fa-f]{7,64}")
_BRANCH_LIKE = re.compile(r"v?\d+(?:\.\d+)?\.[xX]", re.ASCII)
_REF_LINE = re.compile(r"([^\t\n]+)\t([^\n]+)\n")


class RefListing(Mapping[str, str]):
    """
    The branches and tags of a server, by full name as object ids, those of annotated tags also as ``NAME^{}``.

    Kept as the text of ``git ls-remote``: a dict takes five times as much memory, for each repository and once more
    while it is listed again, and a tenant may have 100,000 branches. A name is found in 0.1 ms among 10,000.
    """

    def __init__(self, listing: str = "") -> None:
        self._text = f"\n{listing}"

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield names and object ids in the order of the server."""
        return ((match[2], match[1]) for match in _REF_LINE.finditer(self._text))

    def __getitem__(self, name: str) -> str:
        end = -1 if "\n" in name else self._text.find(f"\t{name}\n")
        if end < 0:
            raise KeyError(name)
        return self._text[self._text.rfind("\n", 0, end) + 1 : end]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs())

    def __len__(self) -> int:
        return self._text.count("\t")

    # those of Mapping look each name up
    def items(self) -> ItemsView[str, str]:
        """Return names with object ids."""
        return dict(self.pairs()).items()

    def values(self) -> ValuesView[str]:
        """Return object ids."""
        return dict(self.pairs()).values()


def find_ref(revision: str, refs: Collection[str]) -> str | None:
    """
    Return the full name of the ref that a revision names, None for a commit id and when no ref matches.

    ``refs`` are full names. A version range matches tags only, and a full name only itself: a user who may push
    branches cannot redirect an Application that follows a tag. Of the ranges, ``1.x`` and the like are also what
    projects call their branches: an existing branch or tag of exactly that name is taken. Raise InvalidInput when a
    branch and a tag both match.
    """
    if is_commit(revision):
        return None
    if revision.startswith("refs/"):
        return revision if revision in refs else None
    versions = parse_range(revision)
    if versions is not None and not is_branch_like(revision):
        return _highest_tag(versions, refs)
    names = [name for name in (f"{HEADS}{revision}", f"{TAGS}{revision}") if name in refs]
    if len(names) > 1:
        raise InvalidInput(
            f"the revision {revision!r} is ambiguous: the repository has a branch and a tag of this name",
            location="spec.source.revision",
            hint=f"set it to {' or '.join(names)}",
        )
    if names:
        return names[0]
    return _highest_tag(versions, refs) if versions is not None else None


def is_branch_like(revision: str) -> bool:
    """Return whether a range of versions is also what projects call branches: ``1.x``, ``v2.3.x``."""
    return _BRANCH_LIKE.fullmatch(revision) is not None


def hidden_range(revision: str, refs: Collection[str]) -> str:
    """Return a warning where a revision names a branch or tag, and would as a range name another tag."""
    versions = parse_range(revision) if is_branch_like(revision) else None
    name = find_ref(revision, refs) if versions is not None else None
    if versions is None or name is None or _highest_tag(versions, refs) in (None, name):
        return ""
    return f"the revision {revision} is {name}, not a range of versions; write ~{revision[:-2]} for the highest tag"


def _highest_tag(versions: Range, refs: Collection[str]) -> str | None:
    tag = versions.highest(name.removeprefix(TAGS) for name in refs if name.startswith(TAGS))
    return f"{TAGS}{tag}" if tag else None


def branch_name(revision: str) -> str | None:
    """Return the full name of the branch that a revision may name, None for a commit id, a range and a tag."""
    if is_commit(revision) or (parse_range(revision) is not None and not is_branch_like(revision)):
        return None
    name = revision if revision.startswith("refs/") else f"{HEADS}{revision}"
    return name if name.startswith(HEADS) else None


def missing_revision(revision: str, refs: Collection[str], url: str) -> MissingRevision:
    """Return the error for a revision that no ref matches, with similar names."""
    where = "spec.source.revision"
    if not refs:
        return MissingRevision(
            f"the repository {url} is empty, so {revision!r} does not exist in it",
            location=where,
            hint="push a first commit; it is applied with the next poll",
        )
    what = f"the revision {revision!r} does not exist in {url}"
    if _COMMIT_LIKE.fullmatch(revision):
        hint = "write a commit id in full (40 or 64 digits), in small letters"
        return MissingRevision(what, location=where, hint=hint)
    if revision == "HEAD":
        hint = "HEAD may move to another branch at the server; name the branch, such as main"
        return MissingRevision("HEAD is not followed", location=where, hint=hint)
    if revision.startswith("refs/") and not revision.startswith((HEADS, TAGS)):
        hint = "push the commit to a branch of the repository, and name that"
        return MissingRevision(f"{revision} is neither a branch nor a tag", location=where, hint=hint)
    # ^{}: the commit of an annotated tag, which ls-remote lists beside the tag itself
    names = {name.removeprefix(HEADS).removeprefix(TAGS): name for name in refs if not name.endswith("^{}")}
    similar = get_close_matches(revision.removeprefix(HEADS).removeprefix(TAGS), names, 5, 0.5)
    listed = "similar names" if similar else "it has, among others"
    examples = ", ".join(similar or sorted(names)[:5])
    return MissingRevision(what, location=where, hint=f"{listed}: {examples}")
