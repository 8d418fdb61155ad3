"""
Masked fields: where objects of any kind hold values of Secrets, which are not shown.

An annotation lists their JSON Pointers, so that all who show an object know them: the controller, the commands and the
pages, also of the live object. ``*`` is every item of a list, whose items may move.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from gitsync.objects.keys import LAST_APPLIED, MASKED_FIELDS
from gitsync.objects.manifest import Manifest, annotations_of, escaped_name, metadata_of, pointer_parts

Pattern: TypeAlias = tuple[str, ...]
"""The names of a pointer, with ``*`` for each item of a list."""

SHORTEST: Final = 4
"""Texts shorter than this are not masked: that would hide ordinary words."""
_INSIDE: Final = 8
"""Characters from which a text is also found inside a longer one, such as a password in a URL."""
_ITEM: Final = "*"
_TEMPLATES: Final = ("template", "jobTemplate")
"""The members of workloads whose metadata become those of what they make."""
_LAST_APPLIED: Final = ("metadata", "annotations", LAST_APPLIED)


def masked_fields(*manifests: Manifest | None) -> frozenset[Pattern]:
    """Return the patterns of the fields that some forms of an object mask, empty where none does."""
    texts = [text for manifest in manifests if manifest and (text := annotations_of(manifest).get(MASKED_FIELDS))]
    patterns = frozenset(pointer_parts(pointer) for text in texts for pointer in str(text).split())
    # the last-applied annotation repeats all fields
    return patterns | {_LAST_APPLIED} if patterns else patterns


def hide(value: Any, at: Pattern, patterns: Iterable[Pattern], mask: Callable[[Any], Any]) -> Any:
    """Return the value at a pointer with what the patterns name replaced by ``mask`` of it; the same one otherwise."""
    below = [pattern[len(at) :] for pattern in patterns if _matches(pattern, at)]
    if not below and not any(_matches(at, pattern) for pattern in patterns):
        return value
    return _hidden(value, below or [()], mask)


def _matches(pattern: Pattern, start: Pattern) -> bool:
    """Return whether a pattern, or one of them, begins with another."""
    if len(pattern) < len(start):
        return False
    return all(own == other or _ITEM in (own, other) for own, other in zip(pattern, start, strict=False))


def _hidden(value: Any, patterns: list[Pattern], mask: Callable[[Any], Any]) -> Any:
    if () in patterns:
        return mask(value)
    by_name: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        by_name.setdefault(pattern[0], []).append(pattern[1:])
    if isinstance(value, dict):
        return {name: _hidden(item, by_name[name], mask) if name in by_name else item for name, item in value.items()}
    if isinstance(value, list):
        every = by_name.get(_ITEM, [])
        inner = (by_name.get(str(number), []) + every for number in range(len(value)))
        return [_hidden(item, below, mask) if below else item for item, below in zip(value, inner, strict=True)]
    return value


def with_masked_fields(manifest: Manifest, texts: SecretTexts) -> Manifest:
    """
    Return an object with the annotation for its fields that hold secret texts, and for no others.

    A chart could hide from those who review it what it changes, so that an annotation of its own is replaced.

    The templates in it get one too, so that the Pods and Jobs that are made of them have it.
    """
    pointers = frozenset(_pointers_of(manifest, texts))
    annotations = annotations_of(manifest)
    if pointers or MASKED_FIELDS not in annotations:
        return _annotated(manifest, pointers) if pointers else manifest
    kept = {name: value for name, value in annotations.items() if name != MASKED_FIELDS}
    return {**manifest, "metadata": {**metadata_of(manifest), "annotations": kept}}


def _annotated(part: dict[str, Any], pointers: frozenset[Pattern]) -> dict[str, Any]:
    result = _with_templates(part, pointers)
    metadata = metadata_of(result)
    text = " ".join(sorted("".join(f"/{escaped_name(name)}" for name in pointer) for pointer in pointers))
    return {**result, "metadata": {**metadata, "annotations": {**annotations_of(result), MASKED_FIELDS: text}}}


def _with_templates(part: dict[str, Any], pointers: frozenset[Pattern]) -> dict[str, Any]:
    result = dict(part)
    for name, item in part.items():
        below = frozenset(pointer[1:] for pointer in pointers if len(pointer) > 1 and pointer[0] == name)
        if below and isinstance(item, dict):
            result[name] = (_annotated if name in _TEMPLATES else _with_templates)(item, below)
    return result


class SecretTexts:
    """Find secret texts, in every spelling, as values and inside longer ones."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = {form for text in texts for form in spellings(text) if len(form) >= SHORTEST}
        self._known = known
        # longest first: a text that is a part of another one would leave the rest of that readable
        inside = sorted((form for form in known if len(form) >= _INSIDE), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, inside))) if inside else None

    def are_in(self, value: object) -> bool:
        """Return whether a value is one of the texts, or has one inside."""
        text = str(value)
        return text in self._known or bool(self._inside and self._inside.search(text))

    def hidden_in(self, message: str, mask: str) -> str:
        """Return a message without the texts."""
        for form in sorted(self._known, key=len, reverse=True):
            message = message.replace(form, mask)
        return message


def _pointers_of(value: Any, texts: SecretTexts, at: Pattern = ()) -> Iterator[Pattern]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _pointers_of(item, texts, (*at, str(name)))
    elif isinstance(value, list):
        for item in value:
            yield from _pointers_of(item, texts, (*at, _ITEM))
    elif value is not None and not isinstance(value, bool) and texts.are_in(value):
        yield at


def values_at(value: Any, patterns: Iterable[Pattern]) -> Iterator[str]:
    """Yield the values of an object at some patterns, as texts."""
    held: list[str] = []

    def keep(item: Any) -> Any:
        held.append(str(item))
        return item

    hide(value, (), patterns, keep)
    yield from held


def spellings(value: str) -> set[str]:
    """Return the forms in which a text may be quoted: plain, base64, escaped, line by line."""
    plain = {value, "".join(value.split())}
    # what is not base64, or not text, has no other plain form that a message could quote
    with contextlib.suppress(ValueError):
        plain.add(base64.b64decode("".join(value.split()), validate=True).decode())
    plain |= {line.strip() for text in plain for line in text.splitlines()}
    encoded = {base64.b64encode(text.encode(errors="replace")).decode() for text in plain}
    escaped = {text.encode("unicode_escape").decode() for text in plain}
    return plain | encoded | escaped | {text.replace('"', '\\"') for text in escaped}
