"""
Candidates: the edits that may give a field its new value, judged by what is written where its value comes from.

The text there may be the value, a part of it (a tag, a prefix), or contain it (a literal ``key=value``). Which one is
right shows in the render: a candidate is only a proposal. Where no place in a file sets the field by itself, the
candidate is the smallest patch of a kustomization that does.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from gitsync.edit.yaml_text import PlacedSpot, Spot, is_plain, replaced, spots_at, spots_below, with_value
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, escaped_name
from gitsync.objects.tree import Entry, Tree
from gitsync.render.kustomize.charts import DEFAULT_HOME
from gitsync.render.kustomize.files import CHART_FILE
from gitsync.render.provenance.paths import indexes
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.yaml.locations import Node, Path, nodes
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalars import resolve

_ITEM: Final = re.compile(r"\[(.+)\]")
_PATCHES: Final = "patches"
_CHARTS: Final = "helmCharts"
_VALUES_FILE: Final = "values.yaml"
_MOST_SET: Final = 10
"""Values that are tried before new ones: each costs a render, and a chart may have many that are equal."""


@dataclass(frozen=True, slots=True)
class PatchTarget:
    """The object of a patch, as its file names it; ``namespace`` is empty where the file has none."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """The members that tell objects of one kind apart: Kustomize compares the namespace too."""
        return {"name": self.name} | ({"namespace": self.namespace} if self.namespace else {})

    @property
    def selector(self) -> dict[str, str]:
        """The ``target`` of a patch that does not name its object itself."""
        group, _, version = self.api_version.rpartition("/")
        return ({"group": group} if group else {}) | {"version": version, "kind": self.kind} | self.metadata


@dataclass(frozen=True, slots=True)
class OverlayPatch:
    """An entry of ``patches``: a strategic merge patch, or with ``target`` the operations of a JSON patch."""

    body: dict[str, Any] | list[dict[str, Any]]
    target: dict[str, str] | None = None


def merge_patch(target: PatchTarget, path: Sequence[str], value: Any) -> OverlayPatch | None:
    """Return the strategic merge patch that sets a field, None where an item of a list on the way has no key."""
    patch: dict[str, Any] = {"apiVersion": target.api_version, "kind": target.kind, "metadata": target.metadata}
    holder: Any = patch
    for position, part in enumerate(path):
        following = path[position + 1] if position + 1 < len(path) else None
        item = _ITEM.fullmatch(part)
        if item:
            pairs = (pair.partition("=") for pair in item[1].split(","))
            holder.append({key: int(text) if text.isdecimal() else text for key, _, text in pairs})
            holder = holder[-1]
        elif part.isdecimal():
            return None
        elif following is None:
            holder[part] = value
        else:
            holder = holder.setdefault(part, [] if _ITEM.fullmatch(following) else {})
    return OverlayPatch(patch)


def json_patch(target: PatchTarget, manifest: Manifest, path: Sequence[str], value: Any) -> OverlayPatch | None:
    """Return the JSON patch that sets a field, None where what should hold the field is absent."""
    steps = indexes(manifest, tuple(path))
    if len(steps) < len(path) - 1:
        return None
    operations: list[dict[str, Any]] = []
    pointer = ""
    holder: Any = manifest
    for part, step in zip(path, steps, strict=False):
        pointer += f"/{escaped_name(str(step))}"
        holder = holder[step]
        if item := _ITEM.fullmatch(part):
            key = item[1].partition("=")[0]
            # An index means another item once the base gets one more: then the build fails and names this line.
            operations.append({"op": "test", "path": f"{pointer}/{key}", "value": holder[key]})
    is_present = len(steps) == len(path)
    if not is_present:
        pointer += f"/{escaped_name(path[-1])}"
    operations.append({"op": "replace" if is_present else "add", "path": pointer, "value": value})
    return OverlayPatch(operations, target.selector)


def with_patch(content: bytes, patch: OverlayPatch) -> bytes:
    """Return a kustomization file with a patch added to the end of its ``patches``; all its bytes stay."""
    text = content.decode()
    known = nodes(text.removeprefix("\ufeff"))
    root = known.get(())
    if root is None or root.style != ":":
        raise InvalidInput("the kustomization is not a mapping in block style", hint="edit it by hand")
    present = known.get((_PATCHES,))
    if present is None:
        separator = "" if text.endswith("\n") or not text else "\n"
        return (text + separator + f"{_PATCHES}:\n" + _item(patch, "")).encode()
    # A list in brackets stays one: JSON is YAML on a single line.
    if present.style == "[":
        inside = text[present.start : present.end - 1].rstrip()
        comma = "" if inside == "[" else ", "
        members: dict[str, Any] = {"patch": json.dumps(patch.body)}
        entry = json.dumps(members | ({"target": patch.target} if patch.target else {}))
        return (text[: present.start] + inside + comma + entry + text[present.end - 1 :]).encode()
    if present.style != "-":
        raise InvalidInput("patches is not a list", hint="edit the kustomization by hand")
    items = [node for path, node in known.items() if len(path) == 2 and path[0] == _PATCHES]
    # The items' own column: lists may be indented or not.
    dash = text.rfind("-", 0, items[0].start)
    indent = " " * (dash - (text.rfind("\n", 0, dash) + 1))
    end = _end_of_lines(text, max(_ends(known, (_PATCHES,))))
    separator = "" if text[:end].endswith("\n") else "\n"
    return (text[:end] + separator + _item(patch, indent) + text[end:]).encode()


def _ends(known: dict[Path, Node], path: Path) -> Iterator[int]:
    """Yield the ends of the scalars, aliases and brackets below a path; a block collection ends later than its text."""
    for other, node in known.items():
        if other[: len(path)] == path and node.style not in (":", "-"):
            yield node.end


def _end_of_lines(text: str, end: int) -> int:
    """Return the start of the line behind a value."""
    if text[end - 1 : end] == "\n":
        return end
    following = text.find("\n", end)
    return len(text) if following < 0 else following + 1


def _item(patch: OverlayPatch, indent: str) -> str:
    lines = [f"{indent}- patch: |-", *(f"{indent}    {line}" for line in _yaml(patch.body).splitlines())]
    if patch.target:
        lines += [f"{indent}  target:", *(f"{indent}    {line}" for line in _yaml(patch.target).splitlines())]
    return "".join(f"{line}\n" for line in lines)


def _yaml(value: Any) -> str:
    from ruamel.yaml import YAML  # late: few edits add anything

    writer = YAML()
    writer.default_flow_style = False
    writer.width = 10_000  # a line that is folded may read differently inside a block
    stream = io.StringIO()
    writer.dump(_quoted(value), stream)
    return stream.getvalue()


def _quoted(value: Any) -> Any:
    """Return a value in which texts have quotes that Kustomize needs: the writer's YAML 1.2 has no word ``yes``."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, dict):
        return {key: _quoted(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    is_word = isinstance(value, str) and "\n" not in value and not is_plain(value)
    return DoubleQuotedScalarString(value) if is_word else value


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file with another content, and the line of the change."""

    file: str
    line: int
    content: bytes
    shared_by: str = ""
    """The anchor by which other places of the file repeat what is changed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The field to change: its last name, its value now and then as texts, and whether the value is a text."""

    key: str
    old: str
    new: str
    is_text: bool


def wanted_value(path: Sequence[str], old: Any, new: Any) -> Wanted:
    """Return the texts of a field's two values."""
    return Wanted(path[-1], _text(old), _text(new), isinstance(new, str))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def candidates(tree: Tree, setters: Sequence[FieldSetter], wanted: Wanted) -> Iterator[Candidate]:
    """Yield the edits at the places that set a field, the one that decided it first."""
    # Last first: an earlier place may hold the same value, but a later step sets the field.
    for place in dict.fromkeys(setter.where for setter in reversed(setters)):
        # ``build`` and files of other repositories have no line here, and cannot be edited.
        file, _, number = place.rpartition(":")
        if not number.isdecimal() or tree.entry(file) is not Entry.FILE:
            continue
        try:
            text = tree.read(file).decode()
        except UnicodeDecodeError:
            continue
        for variant in (wanted, *_decoded(wanted)):
            for content, shared_by in _contents(text, int(number), variant):
                yield Candidate(file, int(number), content.encode(), shared_by)


def _decoded(wanted: Wanted) -> Iterator[Wanted]:
    """Yield what a Secret holds in base64, for files and literals hold it in the clear."""
    try:
        old = _from_base64(wanted.old)
        new = _from_base64(wanted.new)
    except (binascii.Error, ValueError):
        return
    if old:
        yield Wanted(wanted.key, old, new, is_text=True)


def _from_base64(text: str) -> str:
    return base64.b64decode("".join(text.split()), validate=True).decode()


def _contents(text: str, line: int, wanted: Wanted) -> Iterator[tuple[str, str]]:
    if text == wanted.old:  # a file is a generator's whole value
        yield wanted.new, ""
        return
    lines = text.split("\n")
    content = lines[line - 1] if line <= len(lines) else ""
    name, equals, value = content.partition("=")
    # An env file is not YAML: everything behind the first = is the value, spaces too.
    if equals and name.strip() == wanted.key and value.rstrip("\r") == wanted.old and "\n" not in wanted.new:
        lines[line - 1] = f"{name}={wanted.new}" + ("\r" if value.endswith("\r") else "")
        yield "\n".join(lines), ""
        return
    for spot in spots_at(text, line):
        for value, is_text in _values(spot, wanted):
            yield replaced(text, spot, value, is_text=is_text), spot.shared_by


def _values(spot: Spot, wanted: Wanted) -> Iterator[tuple[str, bool]]:
    """Yield what a spot has to hold, with whether it is a text: the value, a part of it, or a text around it."""
    if spot.is_alias:
        if spot.value:
            yield wanted.new, wanted.is_text
        return
    if spot.value == wanted.old or _reads_as(spot, wanted.old):
        yield wanted.new, wanted.is_text or spot.style in ("'", '"')
        return
    if spot.value and spot.value in wanted.old:
        for head, tail in _splits(wanted.old, spot.value):
            if len(wanted.new) >= len(head) + len(tail) and wanted.new.startswith(head) and wanted.new.endswith(tail):
                yield wanted.new[len(head) : len(wanted.new) - len(tail)], True
    elif wanted.old and wanted.old in spot.value:
        for head, tail in _splits(spot.value, wanted.old):
            yield head + wanted.new + tail, True


def _reads_as(spot: Spot, text: str) -> bool:
    """Return whether a spot without quotes is another spelling of a value, such as ``1e3`` of ``1000``."""
    try:
        return not spot.style and _text(resolve(spot.value)) == text
    except ValueError:  # a number that YAML has and JSON has not
        return False


def _splits(text: str, part: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and behind each occurrence of a part."""
    start = text.find(part)
    while start >= 0:
        yield text[:start], text[start + len(part) :]
        start = text.find(part, start + 1)


# values of charts: no template tells which of them it prints, so that each that may be it is tried


class ValuesPlace(NamedTuple):
    """Values of a chart: a file, and the path of those in it that are in a kustomization."""

    file: str
    path: Path = ()


class ChartValues(NamedTuple):
    """
    Where the values of a chart are set, those that override the others first, and its defaults.

    Each file of defaults has the path at which a file of values overrides it, such as that of a dependency.
    """

    places: tuple[ValuesPlace, ...]
    defaults: tuple[ValuesPlace, ...]


def paths_of_values(chart: str, files: Sequence[str]) -> Iterator[str]:
    """Yield the paths in the tree of values files, which are named relative to the chart, or to the root by a /."""
    for file in files:
        yield posixpath.normpath(file.lstrip("/") if file.startswith("/") else posixpath.join(chart, file))


def default_values(tree: Tree, chart: str, template: str) -> Iterator[ValuesPlace]:
    """Yield the defaults that a template may print: those of its dependency, then those of the chart."""
    inside = template.removeprefix(f"{chart}/") if chart else template
    parts = inside.split("/")
    # charts/NAME/templates/a.yaml
    if parts[0] == DEFAULT_HOME and len(parts) > 2:
        yield ValuesPlace(posixpath.join(chart, *parts[:2], _VALUES_FILE), (parts[1],))
    yield ValuesPlace(posixpath.join(chart, _VALUES_FILE))


def kustomized_values(tree: Tree, kustomization: str, chart: str) -> Iterator[ValuesPlace]:
    """Yield the values that a kustomization gives to a chart, those that override the others first."""
    if tree.entry(kustomization) is not Entry.FILE:
        return
    documents = read_all(tree.read(kustomization), kustomization)
    content = documents[0] if documents and isinstance(documents[0], dict) else {}
    name = _name_of(tree, chart)
    folder = posixpath.dirname(kustomization)
    for number, item in enumerate(content.get(_CHARTS) or ()):
        if isinstance(item, dict) and item.get("name") == name:
            more = item.get("additionalValuesFiles") or ()
            for file in reversed([*paths_of_values(folder, more)]):
                yield ValuesPlace(file)
            yield ValuesPlace(kustomization, (_CHARTS, number, "valuesInline"))
            if item.get("valuesFile"):
                yield ValuesPlace(posixpath.normpath(posixpath.join(folder, item["valuesFile"])))


def _name_of(tree: Tree, chart: str) -> str:
    file = posixpath.join(chart, CHART_FILE)
    documents = read_all(tree.read(file), file)
    return str(documents[0].get("name")) if documents and isinstance(documents[0], dict) else ""


def value_candidates(tree: Tree, values: ChartValues, wanted: Wanted) -> Iterator[Candidate]:
    """
    Yield edits of the values that a chart may print as a field: of those that are set, then new ones over defaults.

    Defaults are edited only where nothing else has values: they are for all who use the chart.
    """
    places = values.places or values.defaults
    yield from islice(_set_values(tree, places, wanted), _MOST_SET)
    if not values.places:
        return
    target = values.places[0]
    text = _text_of(tree, target.file)
    for path, content, is_text in _overridden(tree, values, wanted):
        added = with_value(text, (*target.path, *path), content, is_text=is_text)
        if added is not None:
            yield Candidate(target.file, added[1], added[0].encode())


def probes(tree: Tree, values: ChartValues, wanted: Wanted) -> Iterator[Candidate]:
    """Yield changes of each value that a chart may print as a field, where it is set: the defaults come last."""
    return _set_values(tree, (*values.places, *values.defaults), wanted)


def _overridden(tree: Tree, values: ChartValues, wanted: Wanted) -> Iterator[tuple[Path, str, bool]]:
    """Yield the paths at which the first place would override values of the others, with what they have to be."""
    for place in values.places[1:]:
        for placed, content, is_text in _matching(_text_of(tree, place.file), place.path, wanted):
            yield placed.path[len(place.path) :], content, is_text
    for default in values.defaults:
        for placed, content, is_text in _matching(_text_of(tree, default.file), (), wanted):
            yield (*default.path, *placed.path), content, is_text


def _set_values(tree: Tree, places: Sequence[ValuesPlace], wanted: Wanted) -> Iterator[Candidate]:
    for place in places:
        text = _text_of(tree, place.file)
        for placed, content, is_text in _matching(text, place.path, wanted):
            edited = replaced(text, placed.spot, content, is_text=is_text)
            yield Candidate(place.file, placed.line, edited.encode(), placed.spot.shared_by)


def _matching(text: str, path: Path, wanted: Wanted) -> Iterator[tuple[PlacedSpot, str, bool]]:
    """Yield the values below a path that may be a field's value, or a part of it, with what each has to be instead."""
    options = [
        (_rank(placed, wanted), placed, content, is_text)
        for placed in spots_below(text, path)
        for content, is_text in _values(placed.spot, wanted)
    ]
    for _, placed, content, is_text in sorted(options, key=lambda option: option[0]):
        yield placed, content, is_text


def _rank(placed: PlacedSpot, wanted: Wanted) -> int:
    """Return how unlikely it is that a field has a value: one that is equal, of a similar name, is most likely."""
    name = str(placed.path[-1]).lower() if placed.path else ""
    field = wanted.key.lower()
    is_whole = placed.spot.value == wanted.old
    is_named = bool(name) and (name in field or field in name)
    return 2 * (not is_whole) + (not is_named)


def _text_of(tree: Tree, file: str) -> str:
    """Return the text of a file, empty where there is none."""
    if tree.entry(file) is not Entry.FILE:
        return ""
    try:
        return tree.read(file).decode()
    except UnicodeDecodeError:
        return ""
