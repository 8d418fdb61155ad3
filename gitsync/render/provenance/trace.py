"""Trace: the origin of fields of rendered objects, for comparisons with live ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.kube.field_path import follow
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.tree import Entry, Tree
from gitsync.render.provenance.recorder import FieldSetter, History
from gitsync.render.provenance.step_source import BUILD_STEP
from gitsync.render.yaml.reader import locate, read_all

FieldSelection: TypeAlias = Mapping[ObjectRef, Iterable[str]]
Traces: TypeAlias = dict[ObjectRef, dict[str, tuple[FieldSetter, ...]]]

_VALUES: Final = 200
"""The maximum number of plain values of one field that are traced."""


class Rendered(Protocol):
    """A build that recorded the history of each manifest."""

    @property
    def manifests(self) -> Sequence[Manifest]:
        """The rendered objects."""
        ...

    @property
    def provenance(self) -> Sequence[History]:
        """The history of each of them."""
        ...


def trace(made: Rendered, wanted: FieldSelection) -> Traces:
    """
    Return the steps that set fields, in order; the last one decided it. The build was made with provenance.

    Fields are spelled as the API server does; the empty one means the object and the step that created it. What no file
    sets, such as a label of gitsync, is left out.
    """
    known = {
        ref_of(manifest): (manifest, history) for manifest, history in zip(made.manifests, made.provenance, strict=True)
    }
    traces: Traces = {}
    for ref, fields in wanted.items():
        anywhere = ObjectRef(ref.group, ref.kind, "", ref.name)
        if ref in known or anywhere in known:
            manifest, history = known.get(ref) or known[anywhere]
            steps = {field: _steps(manifest, history, field) for field in fields}
            traces[ref] = {field: setters for field, setters in steps.items() if setters}
    return traces


def _steps(manifest: Manifest, history: History, field: str) -> tuple[FieldSetter, ...]:
    if not field:
        return (FieldSetter(history.step, history.source.where(())),)
    path, is_there = follow(manifest, field)
    # The API server moves stringData to data.
    if not is_there and field.startswith(".data"):  # of a Secret; the cluster knows no other
        path, is_there = follow(manifest, f".stringData{field.removeprefix('.data')}")
    if not is_there:
        return ()
    # A field such as .spec of a large object would name every line of its file.
    leaves = list(islice(history.below([str(part) for part in path]), _VALUES))
    ways = [history.setters(leaf) for leaf in leaves]
    if len(ways) > 1 and any(leaf in history.original for leaf in leaves):  # one line for all values from there
        begun = FieldSetter(history.step, history.source.where(tuple(str(part) for part in path)))
        ways = [(begun,), *(way[leaf in history.original :] for leaf, way in zip(leaves, ways, strict=True))]
    return tuple(dict.fromkeys(setter for way in ways for setter in way))


def place(steps: Iterable[FieldSetter]) -> str:
    """Return the file and line of the last step; empty where no file set the field."""
    return next((setter.where for setter in reversed(tuple(steps)) if setter.where != BUILD_STEP), "")


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
    candidates = [place for file in files for place in _places(tree, file, manifest, field)]
    best = max(candidates, default=None)
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
