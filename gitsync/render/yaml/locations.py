"""The lines of the values of a YAML document and the characters that write them, found by parsing the text again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

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


class Node(NamedTuple):
    """
    A value of a document as its text writes it: characters ``start`` to ``end`` behind anchor and tag, in a style.

    The style is that of a scalar (empty, ``'``, ``"``, ``|`` or ``>``), ``*`` for an alias, ``{`` and ``[`` for
    collections in brackets, ``:`` and ``-`` for those in a block. ``line`` counts from 0 and is that of its key, if it
    has one.
    """

    path: Path
    line: int
    start: int
    end: int
    style: str
    value: str = ""
    """The text of a scalar, or the name of an alias."""
    anchor: str = ""
    in_flow: bool = False
    """Whether it is inside brackets."""
    column: int = 0
    """The column of its key, or of itself in a list."""
    line_of_text: int = 0
    """The line, from 0, on which it begins itself, behind its key."""


def nodes(text: str) -> dict[Path, Node]:
    """Return the values of the text's document by their paths; what an alias brings in has no node of its own."""
    parser: Any = CParser(text)
    collected: dict[Path, Node] = {}
    stack: list[_OpenCollection] = []
    while True:
        event = parser.get_event()
        kind = type(event)
        if kind is DocumentEndEvent or kind is StreamEndEvent:
            return collected
        if kind is MappingEndEvent or kind is SequenceEndEvent:
            path = stack.pop().path
            # libyaml ends a block collection at the next token, behind comments.
            collected[path] = collected[path]._replace(end=event.end_mark.index)
            continue
        if kind not in _VALUES:
            continue
        parent = stack[-1] if stack else None
        # In a mapping, events alternate between keys and values.
        if parent and parent.is_mapping and parent.key is None:
            parent.key = event.value if kind is ScalarEvent else f"*{event.anchor}"
            parent.mark = event.start_mark
            continue
        path = parent.next_path() if parent else ()
        mark = parent.mark if parent and parent.is_mapping else event.start_mark
        in_flow = bool(parent and parent.is_flow)
        start = event.start_mark.index
        if kind is not AliasEvent and (event.anchor is not None or event.tag is not None):
            start += len(_PROPERTIES.match(text, start)[0])  # type: ignore[index]  # it matches nothing at least
        node = Node(
            path,
            mark.line,
            start,
            event.end_mark.index,
            "",
            in_flow=in_flow,
            column=mark.column,
            line_of_text=event.start_mark.line,
        )
        if kind is ScalarEvent:
            collected[path] = node._replace(style=event.style or "", value=event.value, anchor=event.anchor or "")
        elif kind is AliasEvent:
            collected[path] = node._replace(style="*", value=event.anchor)
        else:
            is_mapping = kind is MappingStartEvent
            styles = ("{", ":") if is_mapping else ("[", "-")
            collected[path] = node._replace(style=styles[not event.flow_style], anchor=event.anchor or "")
            stack.append(_OpenCollection(path, is_mapping, in_flow or bool(event.flow_style)))


_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:[ \t]*\n)?[ \t]*)*")
"""An anchor, a tag, or both, which libyaml counts as part of a value."""
_VALUES: Final = frozenset({ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent})


class _OpenCollection:
    """A collection whose end has not come yet."""

    def __init__(self, path: Path, is_mapping: bool, is_flow: bool) -> None:
        self.path = path
        self.is_mapping = is_mapping
        self.is_flow = is_flow
        self.key: str | None = None
        self.mark: Any = None
        self._length = 0

    def next_path(self) -> Path:
        """Return the path of the member that comes next."""
        if self.is_mapping:
            key = self.key or ""
            self.key = None
            return (*self.path, key)
        self._length += 1
        return (*self.path, self._length - 1)
