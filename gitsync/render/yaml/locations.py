"""The lines of the values of a YAML document, found by parsing the text again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

Path: TypeAlias = tuple[str | int, ...]


class Place(NamedTuple):
    """The location of a value: its line from 0, which is that of its key if it has one, and its first character."""

    path: Path
    line: int
    start: int


def places(text: str) -> Iterator[Place]:
    """Yield the place of each value of the text's document, in its order; a path comes twice for a duplicate key."""
    parser: Any = CParser(text)  # the types say that marks may be absent; they never are
    parent: Path = ()
    key: str | None = None  # of a mapping, once it is read
    index = -1  # of a list; -1 in a mapping
    stack: list[tuple[Path, str | None, int]] = []
    anchors: dict[str, str] = {}  # of texts: an alias of one can be a key
    line = 0
    while True:
        event = parser.get_event()
        here = event.start_mark.line
        if isinstance(event, DocumentEndEvent | StreamEndEvent):
            return
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            parent, key, index = stack.pop()
            continue
        if not isinstance(event, ScalarEvent | AliasEvent | MappingStartEvent | SequenceStartEvent):
            continue
        if isinstance(event, ScalarEvent) and event.anchor is not None:
            anchors[event.anchor] = event.value
        if stack and index < 0 and key is None:
            key = event.value if isinstance(event, ScalarEvent) else anchors.get(event.anchor, "")
            line = here
            continue
        path = parent
        if index >= 0:
            path = (*parent, index)
            line = here
            index = index + 1
        elif key is not None:
            path = (*parent, key)
            key = None
        yield Place(path, line if stack else here, event.start_mark.index)
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            stack.append((parent, key, index))
            parent = path
            key = None
            index = -1 if isinstance(event, MappingStartEvent) else 0
