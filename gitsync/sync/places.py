"""Find where a rendered field was written, for an error that a person can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.tree import Entry, Tree
from gitsync.render.yaml_reader import locate, read_all

Path = tuple[str | int, ...]

_STEP = re.compile(r'\.([^.\["]+)|\["([^"]+)"\]|\[([^\]]*)\]')


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A candidate: sorted, the best is the last."""

    depth: int
    is_exact: bool
    file: str
    line: int


def place_of(tree: Tree, files: Iterable[str], manifest: Manifest, field: str) -> str:
    """
    Return ``file:line`` of the field of a rendered object, empty when no file read says it.

    ``field`` is spelled as the API server does: ``.spec.containers[name="web"].image``. Looked through are the
    documents of the same kind whose name the rendered name contains, for overlays add to names; the one that spells
    out most of the path wins.
    """
    found = [place for file in files for place in _places(tree, file, manifest, field)]
    best = max(found, default=None)
    return f"{best.file}:{best.line}" if best is not None else ""


def _places(tree: Tree, file: str, manifest: Manifest, field: str) -> Iterator[_Place]:
    if tree.entry(file) is not Entry.FILE:
        return
    try:
        text = tree.read(file)
        documents = read_all(text, file)
    except InvalidInput:
        return
    name = str(metadata_of(manifest).get("name"))
    for index, document in enumerate(documents):
        if not isinstance(document, dict) or document.get("kind") != manifest.get("kind"):
            continue
        written = str(at(document, "metadata", "name", default=""))
        if written in name:
            path = _path(document, field)
            yield _Place(len(path), written == name, file, locate(text, index, path))


def _path(document: Any, field: str) -> Path:
    """Return the part of the field's path that the document has."""
    path: list[str | int] = []
    value = document
    for plain, quoted, selector in _STEP.findall(field):
        name = plain or quoted
        step: str | int | None
        if name:
            step = name if isinstance(value, dict) and name in value else None
        else:
            step = _index(value, selector)
        if step is None:
            break
        path.append(step)
        value = value[step]
    return tuple(path)


def _index(items: Any, selector: str) -> int | None:
    """Return the index of the list item that ``0``, ``name="web"`` or ``="x"`` selects."""
    if not isinstance(items, list):
        return None
    if selector.isdigit():
        return int(selector) if int(selector) < len(items) else None
    try:
        wanted = {key: orjson.loads(value) for key, _, value in (part.partition("=") for part in selector.split(","))}
    except orjson.JSONDecodeError:
        return None
    for index, item in enumerate(items):
        if item == wanted.get("") or (isinstance(item, dict) and all(item.get(k) == v for k, v in wanted.items())):
            return index
    return None
