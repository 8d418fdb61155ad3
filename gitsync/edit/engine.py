"""
Edit engine: give a field of a rendered object another value, by changing the one place in Git that sets it.

An edit is made only with proof: everything that reads the file is rendered before and after, the field has exactly the
new value, and whatever else changes is reported. Other environments change only where that is asked for.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from gitsync.edit.candidates import (
    Candidate,
    ChartValues,
    OverlayPatch,
    PatchTarget,
    ValuesPlace,
    Wanted,
    candidates,
    default_values,
    json_patch,
    kustomized_values,
    merge_patch,
    paths_of_values,
    probes,
    value_candidates,
    wanted_value,
    with_patch,
)
from gitsync.edit.proof import ChangedField, EditTarget, Renders, same
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import show_path
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Entry
from gitsync.render.build import Build
from gitsync.render.kustomize.files import CHART_FILE
from gitsync.render.kustomize.kustomization import FILE_NAMES
from gitsync.render.provenance.paths import FieldPath, indexes, starts_with
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalars import resolve

_NAME: Final = ("metadata", "name")
_IDENTITY: Final = frozenset({("apiVersion",), ("kind",), _NAME, ("metadata", "namespace")})
_MOST_CANDIDATES: Final = 16
"""Each candidate costs a render of the root."""


@dataclass(frozen=True, slots=True)
class EditScope:
    """What an edit may change: with ``also`` other environments, with ``overlay`` the root's kustomization alone."""

    also: bool = False
    overlay: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """A file and its content with a field's new value, and what else renders differently."""

    file: str
    line: int
    content: bytes
    old: Any
    new: Any
    others: tuple[ChangedField, ...] = ()


class Editor:
    """Edit fields of the objects that a tree renders to."""

    def __init__(self, target: EditTarget) -> None:
        self._target = target
        self._tree = target.tree
        self._root = target.root
        self._renders = Renders(target)

    @property
    def build(self) -> Build:
        """What the root renders to now; raise InvalidInput where it does not."""
        made = self._renders.before(self._root)
        if made is None:
            return self._target.build(self._tree, self._root)  # again, for its error
        return made

    def set(self, position: int, field: Sequence[str], text: str, scope: EditScope) -> Edit:
        """
        Return the edit that gives a field of an object, by its position in the build, the value of a text.

        Raise InvalidInput, with the reason and what to do, where there is none.
        """
        return self._set(position, field, lambda old: _typed(text, old), scope)

    def set_value(self, position: int, field: Sequence[str], value: Any, scope: EditScope) -> Edit:
        """Return the edit that gives a field exactly a value, whose type is its own; raise as ``set`` does."""
        return self._set(position, field, lambda _: value, scope)

    def _set(self, position: int, field: Sequence[str], value_of: Callable[[Any], Any], scope: EditScope) -> Edit:
        made = self.build
        manifest = made.manifests[position]
        path = _leaf(manifest, made.provenance[position], tuple(field))
        old = _value(manifest, path)
        new = value_of(old)
        subject = str(ref_of(manifest))
        if path in made.provenance[position].leaves and same(old, new):
            raise InvalidInput(f"{show_path(path)} already is {new}", object=subject, hint="nothing to do")
        if path in _IDENTITY:
            raise InvalidInput(
                f"{show_path(path)} identifies the object", object=subject, hint="rename it by hand: it is recreated"
            )
        edit = None if scope.overlay else self._at_its_place(position, path, new, scope)
        if edit is not None and (scope.also or _is_alone(edit)):
            return edit
        # Also where no place could be edited, or only one that other fields share: a patch may set the field alone.
        edit = self._instead(edit, position, path, new, scope)
        if edit is not None:
            return edit
        raise InvalidInput(
            f"no single place in Git sets {show_path(path)}",
            object=subject,
            hint="it is computed from several values; see gitsync explain, and edit the file by hand",
        )

    def value_place(self, position: int, field: FieldPath) -> str:
        """
        Return ``file:line`` of the value by which a chart sets a field, empty where none is found.

        No template tells which value it prints. So each that may be the one is changed, and a render with it has to
        change the field in the same way; that is one render for each, of at most 16.
        """
        history = self.build.provenance[position]
        chart = self._chart_of(position)
        # a later step decides, whatever the chart prints
        if chart is None or field not in history.leaves or len(history.setters(field)) > 1:
            return ""
        old = history.leaves[field]
        new = _probe(old)
        if new is None:
            return ""
        wanted = wanted_value(field, old, new)
        for candidate in islice(probes(self._tree, self._values_of(position, chart), wanted), _MOST_CANDIDATES):
            # a chart may refuse the value, which proves nothing
            with suppress(InvalidInput):
                self._proved(candidate, position, field, new, EditScope(also=True))
                return f"{candidate.file}:{candidate.line}"
        return ""

    def _at_its_place(self, position: int, path: FieldPath, new: Any, scope: EditScope) -> Edit | None:
        """Return the edit of a place that sets the field, None where no such edit gives it the value."""
        history = self.build.provenance[position]
        if path not in history.leaves:
            return None
        wanted = wanted_value(path, history.leaves[path], new)
        refusal: InvalidInput | None = None
        overruled: Candidate | None = None
        proposals = candidates(self._tree, history.setters(path), wanted)
        chart = self._chart_of(position)
        if chart is not None:
            # a patch of an overlay decides after the chart
            proposals = chain(proposals, value_candidates(self._tree, self._values_of(position, chart), wanted))
        editable = (candidate for candidate in proposals if self._target.is_editable(candidate.file))
        for candidate in islice(editable, _MOST_CANDIDATES):
            try:
                return self._proved(candidate, position, path, new, scope)
            except _Mismatch:
                overruled = overruled or candidate
            except InvalidInput as error:  # the right place, but it may not change, or the result does not render
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        if overruled is None:
            return None
        for candidate in islice(self._repeated(overruled, position, path, wanted), _MOST_CANDIDATES):
            with suppress(_Mismatch):
                return self._proved(candidate, position, path, new, scope)
        return None

    def _repeated(self, overruled: Candidate, position: int, path: FieldPath, wanted: Wanted) -> Iterator[Candidate]:
        """
        Yield edits of the places that set a field once more, to the value that it has already.

        The history records what changes a value, so it names such a step only where an earlier place has another one.
        """
        edited = self._target.edited({overruled.file: overruled.content})
        try:
            made = self._target.build(edited, self._root, provenance=True)
        except InvalidInput:  # the new value is not valid at that place, so later steps are not known
            return
        if position < len(made.manifests) and ref_of(made.manifests[position]) == ref_of(
            self.build.manifests[position]
        ):
            yield from candidates(self._tree, made.provenance[position].setters(path), wanted)

    def _instead(self, shared: Edit | None, position: int, path: FieldPath, new: Any, scope: EditScope) -> Edit | None:
        """Return a patch in the overlay; in place of the edit of a shared place only one that changes less."""
        if shared is None:
            return self._in_the_overlay(position, path, new, scope)
        try:
            patch = self._in_the_overlay(position, path, new, EditScope(overlay=True))
        except InvalidInput:
            return shared
        return patch if patch is not None and _is_alone(patch) else shared

    def _in_the_overlay(self, position: int, path: FieldPath, new: Any, scope: EditScope) -> Edit | None:
        """Return a patch in the root's own kustomization, None where it has none or a later step sets the field."""
        chart = self._chart_of(position)
        folder = self._target.render_of(position).path
        prefix = f"{folder}/" if folder else ""
        file = next((name for name in FILE_NAMES if self._tree.entry(prefix + name) is Entry.FILE), None)
        if chart is not None and (file is None or not scope.overlay):
            remedy = ", or patch it with --overlay" if file is not None else ""
            raise InvalidInput(
                f"{show_path(path)} comes from the chart {chart or '.'}, and no value of its files alone sets it",
                object=str(ref_of(self.build.manifests[position])),
                hint=f"change its values, inline or in a values file{remedy}",
            )
        if file is None or not self._target.is_editable(prefix + file):
            return None
        content = self._tree.read(prefix + file)
        shared: Edit | None = None
        refusal: InvalidInput | None = None
        for patch in self._overlay_patches(position, path, new):
            candidate = Candidate(prefix + file, content.count(b"\n") + 1, with_patch(content, patch))
            try:
                edit = self._proved(candidate, position, path, new, EditScope())
            except _Mismatch:
                continue
            except InvalidInput as error:  # such as a test of a JSON patch, for a later step changes what it names
                refusal = refusal or error
                continue
            if _is_alone(edit):
                return edit
            shared = shared or edit
        if shared is None and refusal is not None:
            raise refusal
        return shared

    def _overlay_patches(self, position: int, path: FieldPath, new: Any) -> Iterator[OverlayPatch]:
        """Yield the patches that set a field of an object before the kustomization, the one that reads best first."""
        manifest = self.build.manifests[position]
        # What a chart makes has no name in a file; where later steps change its name, the proof fails.
        is_of_chart = self._chart_of(position) is not None
        metadata = manifest["metadata"] if is_of_chart else self._original(position)["metadata"]
        kind = manifest["kind"]
        target = PatchTarget(manifest["apiVersion"], kind, str(metadata["name"]), str(metadata.get("namespace") or ""))
        # By key where the API server merges the list by one; lists of custom resources have none.
        patches = (merge_patch(target, path, new), json_patch(target, manifest, path, new))
        yield from (patch for patch in patches if patch is not None)

    def _chart_of(self, position: int) -> str | None:
        """Return the folder of the chart whose template makes an object, None where none does."""
        if self.build.provenance[position].step == "chart":
            return self._target.render_of(position).path
        folder = posixpath.dirname(self.build.sources[position].file)
        # A subchart is a chart too: the outermost one is that which the kustomization names.
        charts = [above for above in _folders(folder) if self._tree.entry(f"{above}/{CHART_FILE}") is Entry.FILE]
        return charts[-1] if charts and self._target.helm is not None else None

    def _values_of(self, position: int, chart: str) -> ChartValues:
        """Return where the values of a chart are, those that override the others first."""
        template = self.build.sources[position].file
        if self.build.provenance[position].step == "chart":
            options = self._target.render_of(position).chart
            files = list(paths_of_values(chart, options.value_files))
            places = [ValuesPlace(file) for file in reversed(files)]
        else:
            kustomizations = [file for file in sorted(self.build.files_read) if posixpath.basename(file) in FILE_NAMES]
            places = [place for file in kustomizations for place in kustomized_values(self._tree, file, chart)]
        editable = tuple(place for place in places if self._target.is_editable(place.file))
        return ChartValues(editable, tuple(default_values(self._tree, chart, template)))

    def _original(self, position: int) -> Manifest:
        """Return an object as its file has it, by whose name and namespace any kustomization can patch it."""
        made = self.build
        origin = made.sources[position]
        documents = read_all(self._tree.read(origin.file), origin.file)
        document = documents[origin.document] if origin.document < len(documents) else {}
        kind = made.manifests[position].get("kind")
        if not isinstance(document, dict) or document.get("kind") != kind:
            raise InvalidInput("the object is generated", object=str(kind), hint="edit what generates it")
        return document

    def _proved(self, candidate: Candidate, position: int, path: FieldPath, new: Any, scope: EditScope) -> Edit:
        """Return the edit of a candidate; raise InvalidInput where it does another thing than asked for."""
        made = self.build
        subject = str(ref_of(made.manifests[position]))
        where = f"{candidate.file}:{candidate.line}"
        if candidate.shared_by and not scope.also:
            raise InvalidInput(
                f"the value is repeated by the alias *{candidate.shared_by}",
                location=where,
                hint="write it out where it should differ, or change all with --also",
            )
        edited = self._target.edited({candidate.file: candidate.content})
        differences = self._renders.differences(self._root, edited)
        mine = [item for item in differences if _is_meant(item, subject, path)]
        if not any(same(item.new, new) for item in mine if item.field == path):
            raise _Mismatch(f"an edit of {where} does not give the field its value", location=where)
        others = [item for item in differences if item not in mine]
        # Only those that read the file can render differently.
        for root in self._renders.readers(candidate.file):
            if root == self._root:
                continue
            elsewhere = self._renders.differences(root, edited)
            if elsewhere and not scope.also:
                raise InvalidInput(
                    f"the edit also changes {elsewhere[0].object} of {root.places}",
                    location=where,
                    object=subject,
                    hint="change this environment alone with --overlay, or all with --also",
                )
            others += elsewhere
        old = _value(made.manifests[position], path)
        return Edit(candidate.file, candidate.line, candidate.content, old, new, tuple(others))


def _probe(value: Any) -> Any:
    """Return another value of the same kind, None for one that has none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str) and value:
        return str(int(value) + 1) if value.isdecimal() else f"{value}x"
    return None


def _folders(path: str) -> Iterator[str]:
    """Yield a folder and those above it, up to the root of the tree."""
    while path:
        yield path
        path = posixpath.dirname(path)


class _Mismatch(InvalidInput):
    """An edit of a place does not give a field its value."""


def _is_alone(edit: Edit) -> bool:
    """Return whether an edit changes one field; the hash in a generated name, and in references to it, follows."""
    names = {other.old for other in edit.others if other.field == _NAME}
    return all(other.field == _NAME or other.old in names for other in edit.others)


def _is_meant(item: ChangedField, subject: str, path: FieldPath) -> bool:
    return item.object == subject and item.field == path


def _leaf(manifest: Manifest, history: History, field: FieldPath) -> FieldPath:
    """Return the path of a plain value as the history spells it; a field that is absent keeps its spelling."""
    leaves = [leaf for leaf in history.leaves if starts_with(leaf, field, history.leaves)]
    if len(leaves) == 1 and len(leaves[0]) == len(field):
        return leaves[0]
    if leaves:
        raise InvalidInput(
            f"{show_path(field)} is not a plain value",
            object=str(ref_of(manifest)),
            hint=f"set one of its members, such as {show_path(leaves[0])}",
        )
    return field


def _value(manifest: Manifest, path: FieldPath) -> Any:
    value: Any = manifest
    steps = indexes(manifest, path)
    if len(steps) < len(path):
        return None
    for step in steps:
        value = value[step]
    return value


def _typed(text: str, old: Any) -> Any:
    """Return a value of the type that a field has; that of YAML for a field that is absent."""
    # No YAML rules for texts: 1.10 stays 1.10.
    if isinstance(old, str):
        return text
    try:
        value = resolve(text)
    except ValueError as error:
        raise InvalidInput(str(error), hint="quote it") from None
    if isinstance(old, bool) and not isinstance(value, bool):
        raise InvalidInput(f"{text} is neither true nor false", hint="the field holds a flag")
    if (
        isinstance(old, int | float)
        and not isinstance(old, bool)
        and (isinstance(value, bool) or not isinstance(value, int | float))
    ):
        raise InvalidInput(f"{text} is not a number", hint="the field holds a number")
    return str(value) if isinstance(value, str) else value
