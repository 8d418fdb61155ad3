"""Find where a rendered field was written, for an actionable error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gitsync.errors import InvalidInput
from gitsync.kube.field_path import follow
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.tree import Entry, Tree
from gitsync.render.yaml.reader import locate, read_all


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A candidate: sorted, the best is the last."""

    depth: int
    is_exact: bool
    file: str
    line: int


def locate_field(tree: Tree, files: Iterable[str], manifest: Manifest, field: str) -> str:
    """
    Return ``file:line`` of the field of a rendered object, empty when no file has it.

    ``field`` is spelled as the API server does: ``.spec.containers[name="web"].image``. The search covers
    documents of the same kind whose name the rendered name contains, since overlays add to names; the one that has
    most of the path wins.
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
            path, _ = follow(document, field)
            yield _Place(len(path), written == name, file, locate(text, index, path))
