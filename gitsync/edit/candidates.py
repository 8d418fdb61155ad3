"""
Candidates: the edits that may give a field its new value, judged by what is written where its value comes from.

The text there may be the value, a part of it (a tag, a prefix), or contain it (a literal ``key=value``). Which one is
right shows in the render: a candidate is only a proposal.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.edit.yaml_text import Spot, replaced, spots_at
from gitsync.objects.tree import Entry, Tree
from gitsync.render.provenance.recorder import FieldSetter


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
    if spot.value == wanted.old:
        yield wanted.new, wanted.is_text or spot.style in ("'", '"')
        return
    if spot.value and spot.value in wanted.old:
        for head, tail in _splits(wanted.old, spot.value):
            if len(wanted.new) >= len(head) + len(tail) and wanted.new.startswith(head) and wanted.new.endswith(tail):
                yield wanted.new[len(head) : len(wanted.new) - len(tail)], True
    elif wanted.old and wanted.old in spot.value:
        for head, tail in _splits(spot.value, wanted.old):
            yield head + wanted.new + tail, True


def _splits(text: str, part: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and behind each occurrence of a part."""
    start = text.find(part)
    while start >= 0:
        yield text[:start], text[start + len(part) :]
        start = text.find(part, start + 1)
