"""Find the folders and files of a tree that a Git generator names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitsync.applicationsets.model.generators import Directory, File, GitGenerator
from gitsync.errors import InvalidInput
from gitsync.objects.patterns import matches
from gitsync.objects.tree import Entry, Tree

_WILD = "*?[{"
_ANY_DEPTH = "**"
_MOST = 5000
"""Folders or files that one generator may yield."""


def find(tree: Tree, patterns: Sequence[Directory | File], kind: Entry) -> tuple[str, ...]:
    """Return the sorted paths of a kind that match one of the patterns, and none that excludes."""
    excluded = [pattern.path for pattern in patterns if pattern.exclude]
    found: set[str] = set()
    for pattern in patterns:
        if not pattern.exclude:
            found.update(_walk(tree, "", tuple(pattern.path.split("/")), kind))
        if len(found) > _MOST:
            raise InvalidInput(f"{pattern.path} matches more than {_MOST} paths", hint="narrow the pattern")
    return tuple(sorted(path for path in found if not any(_fits(path, each) for each in excluded)))


def paths_read(git: GitGenerator) -> frozenset[str]:
    """Return the files, and folders with ``/`` at the end, on which the elements of a generator depend."""
    return frozenset(map(_read, (pattern.path for pattern in git.directories or ()))) | frozenset(
        pattern.path if not set(_WILD) & set(pattern.path) else _read(pattern.path) for pattern in git.files or ()
    )


def _read(pattern: str) -> str:
    """Return the deepest folder that a pattern names without wildcards or parameters."""
    fixed = []
    for part in pattern.split("/")[:-1]:
        if set(_WILD) & set(part):
            break
        fixed.append(part)
    return "/".join(fixed) + "/"


def _walk(tree: Tree, folder: str, parts: tuple[str, ...], kind: Entry) -> Iterator[str]:
    """Yield the paths below a folder whose names match the parts of a pattern."""
    head, rest = parts[0], parts[1:]
    if head == _ANY_DEPTH:
        yield from _walk(tree, folder, rest or ("*",), kind)
        for path in _folders(tree, folder):
            yield from _walk(tree, path, parts, kind)
        return
    for name in tree.names(folder) if tree.entry(folder) is Entry.FOLDER or not folder else ():
        path = f"{folder}/{name}" if folder else name
        if not _names(name, head):
            continue
        entry = tree.entry(path)
        if rest and entry is Entry.FOLDER:
            yield from _walk(tree, path, rest, kind)
        elif not rest and entry is kind:
            yield path


def _folders(tree: Tree, folder: str) -> Iterator[str]:
    for name in tree.names(folder) if tree.entry(folder) is Entry.FOLDER or not folder else ():
        path = f"{folder}/{name}" if folder else name
        if not name.startswith(".") and tree.entry(path) is Entry.FOLDER:
            yield path


def _names(name: str, part: str) -> bool:
    """Whether a name matches a part of a pattern; a wildcard at the start does not match a dot."""
    return matches(name, part) and (part.startswith(".") or not name.startswith("."))


def _fits(path: str, pattern: str) -> bool:
    return _all_match(tuple(path.split("/")), tuple(pattern.split("/")))


def _all_match(names: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if not parts:
        return not names
    if parts[0] == _ANY_DEPTH:
        rest = parts[1:]
        return not rest or any(_all_match(names[start:], rest) for start in range(len(names) + 1))
    return bool(names) and _names(names[0], parts[0]) and _all_match(names[1:], parts[1:])
