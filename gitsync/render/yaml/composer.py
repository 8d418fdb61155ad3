"""
Build the value of one YAML document from libyaml's events, without recursion and within limits.

No nesting, alias or tag in a text can exhaust the stack or the memory, or build anything but plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from gitsync.errors import InvalidInput
from gitsync.render.yaml.errors import duplicate_key, explain, field_at
from gitsync.render.yaml.limits import LIMITS, YamlLimits
from gitsync.render.yaml.scalar_types import FlowKey, Folded, NullKey, Quoted, refolded, spelled
from gitsync.render.yaml.scalars import CORE, TAGGED, UNSURE, resolve

_MERGE: Final = object()
"""Placeholder of the key ``<<`` until its mapping ends."""
_MERGE_TAG: Final = CORE + "merge"
_NEEDS_RESOLVING: Final = UNSURE | {""}
_COLLECTION_TAGS: Final = {MappingStartEvent: CORE + "map", SequenceStartEvent: CORE + "seq"}
_VALUE_COST: Final = 32
"""The characters that a value counts for at least, with its key, when an alias copies it."""
_SHORT: Final = 64
_resolve_short: Final = lru_cache(maxsize=8192)(resolve)


@dataclass(frozen=True, slots=True, eq=False)
class _OpenAnchor:
    """Placeholder of an anchor's value until the value ends."""

    anchor: str


def compose(text: str, name: str, first_line: int, limits: YamlLimits = LIMITS) -> Any:
    """
    Return the value of the one document in a text, None for an empty text.

    Raise InvalidInput with ``name:line``, counted from ``first_line``, for whatever cannot be read.
    """
    return _Composer(text, name, first_line, limits).compose()


class _Composer:
    def __init__(self, text: str, name: str, first_line: int, limits: YamlLimits) -> None:
        self._text = text
        self._name = name
        self._first_line = first_line
        self._limits = limits
        self._keeps_text = limits.styles or limits.is_raw
        self._anchors: dict[str, Any] = {}
        self._expanded = 0

    def compose(self) -> Any:
        try:
            parser: Any = CParser(self._text)  # the types say that marks may be absent; they never are
            parser.get_event()  # the start of the stream
            if type(parser.get_event()) is StreamEndEvent:
                return None
            value = self._value(parser)
            self._expect_end(parser)
        except yaml.YAMLError as error:
            fault = explain(error, self._text)
            raise self._refusal(fault.what, fault.line, fault.hint) from None
        return value

    def _value(self, parser: Any) -> Any:
        next_event = parser.get_event
        stack: list[tuple[list[Any], bool, bool, _OpenAnchor | None]] = []
        items: list[Any] = []  # those of a mapping are key, value, key, value ...
        is_mapping = False
        is_flow = False  # inside [ ] or { }
        has_merges = False
        keeps_style = self._limits.styles
        while True:
            event = next_event()
            kind = type(event)
            if kind is ScalarEvent:
                value = event.value
                style = event.style
                if event.tag is not None or (value[:1] in _NEEDS_RESOLVING if not style else style == ">"):
                    value = self._scalar(event, is_flow)
                    if is_mapping and not len(items) & 1 and (type(value) is not str or value == "<<"):
                        value = self._key(event, value, is_root=len(stack) == 1)
                        has_merges = has_merges or value is _MERGE
                if keeps_style and not (is_mapping and not len(items) & 1):
                    if style:
                        if type(value) is str:
                            value = Folded(value) if style == ">" else Quoted(value)
                    elif value is None and event.value != "null":
                        if is_mapping and type(items[-1]) is str:
                            items[-1] = NullKey(items[-1], event.value, is_flow=is_flow)
                        elif is_flow and not is_mapping and not event.value:
                            value = Quoted()  # an item has no key to remember it
                    elif type(value) is not str:
                        value = spelled(value, event.value)
                if event.anchor is not None:
                    # A later anchor of the same name replaces it, as YAML says.
                    self._anchors[event.anchor] = value
                items.append(value)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._check_start(event, len(stack), is_key=is_mapping and not len(items) & 1)
                opened = None
                if event.anchor is not None:
                    opened = self._anchors[event.anchor] = _OpenAnchor(event.anchor)
                stack.append((items, is_mapping, is_flow, opened))
                items = []
                is_mapping = kind is MappingStartEvent
                is_flow = is_flow or event.flow_style
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                if is_flow and is_mapping and items and keeps_style and type(items[0]) is str:
                    items[0] = FlowKey(items[0])
                value = self._mapping(items, has_merges, event) if is_mapping else items
                items, is_mapping, is_flow, opened = stack.pop()
                if opened is not None and self._anchors[opened.anchor] is opened:  # else it has a new meaning
                    self._anchors[opened.anchor] = value
                items.append(value)
            elif kind is AliasEvent:
                items.append(self._alias(event, len(stack), is_key=is_mapping and not len(items) & 1))
            else:  # the end of the document
                return items[0]

    def _scalar(self, event: Any, is_flow: bool) -> Any:
        text = event.value
        tag = event.tag
        if tag is None or tag == "!":
            return self._untagged(event, is_flow)
        # Only where it is a key; the caller decides.
        if tag == _MERGE_TAG and text == "<<":
            return text
        if tag not in TAGGED:
            raise self._unknown_tag(event)
        try:
            return TAGGED[tag](text)
        except ValueError as error:
            raise self._unusable(event, error, "correct it") from None

    def _untagged(self, event: Any, is_flow: bool) -> Any:
        text = event.value
        if event.style:
            return refolded(text) if event.style == ">" and not self._keeps_text else text
        if is_flow and (":" in text or (not text and not self._keeps_text)):
            return text  # Kustomize writes it in quotes before it reads it again
        try:
            return _resolve_short(text) if len(text) <= _SHORT else resolve(text)
        except ValueError as error:
            raise self._unusable(event, error, "quote it to make it a string") from None

    def _key(self, event: Any, value: Any, is_root: bool) -> Any:
        if value == "<<":
            return _MERGE
        if value == event.value or (is_root and value is not None):
            return event.value
        raise self._refusal(f"the key {event.value} is not a text", event.start_mark.line, "quote it")

    def _check_start(self, event: Any, depth: int, *, is_key: bool) -> None:
        line = event.start_mark.line
        if depth >= self._limits.depth:
            raise self._refusal(f"nesting is deeper than the limit of {self._limits.depth} levels", line, "flatten it")
        if is_key:
            raise self._refusal("a mapping or list is nested in a key", line, "quote it if it is a text")
        if event.tag not in (None, "!", _COLLECTION_TAGS[type(event)]):
            raise self._unknown_tag(event)

    def _mapping(self, items: list[Any], has_merges: bool, event: Any) -> dict[str, Any]:
        keys = items[::2]
        mapping = dict(zip(keys, items[1::2], strict=True))
        if len(mapping) != len(keys) and not self._limits.duplicates:
            key, first, second = duplicate_key(self._text)
            raise self._refusal(
                f"the key {key} is a duplicate, line {first + self._first_line} has it already",
                second,
                "remove one of them",
            )
        if has_merges and _MERGE in mapping:
            return self._merged(mapping, event)
        return mapping

    def _merged(self, mapping: dict[Any, Any], event: Any) -> dict[str, Any]:
        """Return a mapping with what ``<<`` brings in: its own keys win, then the first of a list."""
        sources = mapping.pop(_MERGE)
        result: dict[str, Any] = {}
        # The first of several sources wins, so it is written last.
        for source in reversed(sources if isinstance(sources, list) else [sources]):
            if not isinstance(source, dict):
                raise self._refusal(
                    "the merge key << needs a mapping or a list of mappings",
                    event.start_mark.line,
                    "give it an alias of a mapping",
                )
            result.update(source)
        return result | mapping

    def _alias(self, event: Any, depth: int, *, is_key: bool) -> Any:
        line = event.start_mark.line
        if event.anchor not in self._anchors:
            what = "a value that begins with * is an alias, and no anchor of that name precedes it"
            raise self._refusal(what, line, "quote it if it is a text")  # no name: it may be a password
        value = self._anchors[event.anchor]
        if isinstance(value, _OpenAnchor):
            raise self._refusal(f"the anchor &{event.anchor} contains itself", line, "remove the alias")
        if is_key and not isinstance(value, str):
            raise self._refusal(f"the alias *{event.anchor} as a key is not a text", line, "write the key out")
        return self._copy(value, depth, line)

    def _copy(self, value: Any, depth: int, line: int) -> Any:
        """Return a deep copy; the limit on nesting, which holds for it too, bounds the recursion."""
        self._expanded += _VALUE_COST
        if isinstance(value, str):
            self._expanded += len(value)
        elif isinstance(value, dict):
            self._expanded += sum(map(len, value))
        if self._expanded > self._limits.aliases:
            what = f"the aliases expand to more than the limit of {self._limits.aliases} characters"
            raise self._refusal(what, line, "write the values out")
        if not isinstance(value, dict | list):
            return value
        if depth >= self._limits.depth:
            raise self._refusal(
                f"aliases make the nesting deeper than the limit of {self._limits.depth} levels", line, "flatten it"
            )
        if isinstance(value, dict):
            return {key: self._copy(member, depth + 1, line) for key, member in value.items()}
        return [self._copy(member, depth + 1, line) for member in value]

    def _expect_end(self, parser: Any) -> None:
        """Refuse what Kustomize would drop in silence: a document after ``...`` without its own ``---``."""
        event = parser.get_event()
        while type(event) is not StreamEndEvent:
            line = event.start_mark.line
            if isinstance(event, CollectionStartEvent | AliasEvent) or (isinstance(event, ScalarEvent) and event.value):
                raise self._refusal("another document begins without '---'", line, "put '---' on a line before it")
            event = parser.get_event()

    def _unusable(self, event: Any, error: ValueError, hint: str) -> InvalidInput:
        field = field_at(self._text, event.start_mark.index)
        return self._refusal(f"{field}: {error}" if field else str(error), event.start_mark.line, hint)

    def _unknown_tag(self, event: Any) -> InvalidInput:
        """Return what refuses a tag, by name unless it may be a password without quotes."""
        line = event.start_mark.line
        if "Secret" in self._text or not getattr(event, "value", True):
            what = "a value that begins with ! has a tag, and this tag cannot be used here"
            return self._refusal(what, line, "quote it if it is a text")
        return self._refusal(f"the tag {event.tag.replace(CORE, '!!')} cannot be used here", line, "remove it")

    def _refusal(self, what: str, line: int, hint: str) -> InvalidInput:
        return InvalidInput(what, location=f"{self._name}:{line + self._first_line}", hint=hint)
