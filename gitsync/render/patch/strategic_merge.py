"""
Strategic merge patches, as Kustomize 5.8 applies them.

Mappings are merged, null removes, lists are replaced unless the schema gives them keys; ``$patch`` directives delete,
replace or merge. Items that a patch adds or names come before the others. Members that the object leaves blank are
dropped, those that it sets to ``null`` stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.patch.merge_keys import UNKNOWN, MergeSchema
from gitsync.render.resources.resource import copy_value, gvk_of
from gitsync.render.yaml.scalar_types import (
    FlowKey,
    Unsettled,
    Untagged,
    in_braces,
    is_blank,
    is_in_braces,
    settled,
    styled,
    text_of,
)
from gitsync.render.yaml.scalars import Yaml11Bool

_DIRECTIVE: Final = "$patch"


class _Absent:
    """No value at all, where None means null."""

    __slots__ = ()


_ABSENT: Final = _Absent()
_EMPTY: Final[Mapping[str, Any]] = {}


def merge(manifest: Manifest, patch: Manifest, schema: MergeSchema) -> Manifest | None:
    """
    Change the manifest as the patch says and return it, or return None where the patch deletes it.

    The patch is not changed. Raise InvalidInput where patch and manifest disagree on what a field is. A whole object
    is not replaced, as in Kustomize.
    """
    # ``$patch: replace`` at the top has no effect in Kustomize.
    if patch.get(_DIRECTIVE) == "replace":
        return manifest
    merged = _Merger(schema).value(manifest, copy_value(patch), None, ())
    return None if isinstance(merged, _Absent) else merged


def replaces_annotations(patch: Manifest) -> bool:
    """Return whether a patch takes away all annotations that were there."""
    meta = patch.get("metadata") or {}
    annotations = meta.get("annotations", {})
    if not isinstance(annotations, dict):
        return True
    return any(mapping.get(_DIRECTIVE) in ("delete", "replace") for mapping in (meta, annotations))


class _Merger:
    __slots__ = ("_schema",)

    def __init__(self, schema: MergeSchema) -> None:
        self._schema = schema

    def value(self, old: Any, new: Any, type_: Any, path: tuple[str, ...], keys: tuple[str, ...] = ()) -> Any:
        """Return the merged value, or absent where it is removed."""
        main = new if old is None or old is _ABSENT else old
        # Neither side has anything: a null of the patch removes, an explicit one of the object stays.
        if main is None or main is _ABSENT:
            return old if new is _ABSENT else _ABSENT
        if new is not None and new is not _ABSENT and _shape(main) is not _shape(new):
            raise InvalidInput(
                f"the patch makes {'.'.join(path) or 'the object'} {_NAMES[_shape(new)]}, "
                f"but it is {_NAMES[_shape(main)]}",
                hint="give the patch the same structure as the object",
            )
        if isinstance(main, dict):
            return self._mapping(old, new, type_, path)
        if isinstance(main, list) and keys:
            return self._keyed_list(old, new, type_, path, keys)
        if new is None:
            return _ABSENT
        if new is _ABSENT:
            return old
        # A null has a style too: a text folded with ``>`` that replaces it loses the fold.
        return new if old is _ABSENT or isinstance(new, list) else styled(new, old)

    def _mapping(self, old: Any, new: Any, type_: Any, path: tuple[str, ...]) -> Any:
        if old is None or old is _ABSENT:
            if _take_directive(new, path, is_strict=False) == "delete":
                return _ABSENT
            old = new
        elif new is None:
            return _ABSENT
        else:
            # Strict only where both sides are mappings, as ``determineSmpDirective`` is called there.
            directive = _take_directive(new, path, is_strict=True) if new is not _ABSENT else "merge"
            if directive == "delete":
                return _ABSENT
            if directive == "replace":
                old = new
            elif new is not _ABSENT and is_in_braces(old):
                new = in_braces(new)
        if type_ is None:
            type_ = self._root(old, new)
            if type_ is None and new is _ABSENT:  # nothing below can be a list with keys
                _settle(old)
                return old
        others = new if isinstance(new, dict) else _EMPTY
        # empty as well where there is one side only, of which nothing is overwritten
        overwriting = others if others is not old else _EMPTY
        for name in old.keys() | others.keys():
            field = UNKNOWN if type_ is None else self._schema.field(type_, name)
            merged = self.value(
                old.get(name, _ABSENT),
                others.get(name, _ABSENT),
                field.type,
                (*path, name),
                field.keys,
            )
            if merged is _ABSENT or (merged is None and is_blank(name)):
                old.pop(name, None)
                continue
            # ``FieldSetter`` quotes a text that YAML 1.1 reads otherwise, unless it takes the style of what was there.
            if isinstance(merged, Untagged) or (type(merged) in _SETTLES and not (name in overwriting and name in old)):
                merged = settled(merged)
            # The first key of a mapping in braces is a FlowKey; elsewhere none is.
            old[str(name) if type(name) is FlowKey and name not in old else name] = merged
        return old

    def _root(self, *values: Any) -> Any:
        for value in values:
            if isinstance(value, dict) and value.get("kind") and value.get("apiVersion"):
                root = self._schema.root(gvk_of(value))
                if root is not None:
                    return root
        return None

    def _keyed_list(self, old: Any, new: Any, type_: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> Any:
        if old is None or old is _ABSENT:
            old = new
        elif new is None:
            return _ABSENT
        elif new is not _ABSENT:
            directive = _take_list_directive(new, path)
            if directive == "delete":
                return _ABSENT
            if directive == "replace":
                old = new
        if keys == ("",):
            return _united(old, new)
        sources = [source for source in (new, old) if isinstance(source, list)]
        wanted = _wanted(sources, keys)
        if not wanted:
            return old
        # A key that no item has does not tell items apart: ports without protocol.
        used = tuple(key for index, key in enumerate(keys) if any(values[index] for values in wanted)) or keys
        indexes = [keys.index(key) for key in used]
        olds = _by_keys(old, used)
        news = _by_keys(new, used)
        # Nearly all lists; the general way below is quadratic.
        if olds is not None and news is not None:
            return self._merged_by_index(wanted, indexes, olds, news, type_, path)
        merged: list[Any] = []
        for full in wanted:
            values = tuple(full[index] for index in indexes)
            item = self.value(_find(old, used, values), _find(new, used, values), type_, path)
            # What the patch deletes must not come back from the rest of the old list.
            if item is _ABSENT or item is None or item == {}:
                _put(old, used, values, None)
                continue
            for key, text in zip(used, values, strict=True):
                if isinstance(item, dict) and key not in item and text:
                    item[key] = text
            _put(merged, used, values, item)
        return _append(merged, old, used)

    def _merged_by_index(
        self,
        wanted: Iterable[tuple[str, ...]],
        indexes: Sequence[int],
        olds: dict[tuple[str, ...], Any],
        news: dict[tuple[str, ...], Any],
        type_: Any,
        path: tuple[str, ...],
    ) -> list[Any]:
        """Merge two lists in which every item has its own key values, in time that grows with their length."""
        merged: dict[tuple[str, ...], Any] = {}
        for full in wanted:
            values = tuple(full[index] for index in indexes)
            item = self.value(olds.get(values, _ABSENT), news.get(values, _ABSENT), type_, path)
            if item is _ABSENT or item is None or item == {}:
                olds.pop(values, None)
            else:
                merged[values] = item
        for values, item in olds.items():
            if len(indexes) > 1:
                merged.pop(values, None)
            merged[values] = item
        return list(merged.values())


_SETTLES: Final = (Yaml11Bool, Unsettled)


def _settle(mapping: dict[str, Any]) -> None:
    """Remove blank members and settle untagged ones, which Kustomize does in all of an object that a patch changes."""
    for name in [name for name, value in mapping.items() if value is None and is_blank(name)]:
        del mapping[name]
    for name, value in mapping.items():
        if isinstance(value, dict):
            _settle(value)
        elif isinstance(value, Untagged | Unsettled | Yaml11Bool):
            mapping[name] = settled(value)


def _by_keys(items: Any, keys: tuple[str, ...]) -> dict[tuple[str, ...], Any] | None:
    """Return the items by their key values, or None where one lacks a key or shares its values."""
    items_by_key: dict[tuple[str, ...], Any] = {}
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            return None
        values = tuple(_key_text(item, key) for key in keys)
        if values in items_by_key or not all(values):
            return None
        items_by_key[values] = item
    return items_by_key


def _shape(value: Any) -> type:
    return dict if isinstance(value, dict) else list if isinstance(value, list) else object


_NAMES: Final = {dict: "a mapping", list: "a list", object: "a plain value"}


def _take_directive(patch: Any, path: tuple[str, ...], *, is_strict: bool) -> str:
    """Return the directive of a mapping and take it out."""
    if not isinstance(patch, dict) or _DIRECTIVE not in patch:
        return "merge"
    directive = _key_text(patch, _DIRECTIVE)
    if directive in ("delete", "replace", "merge"):
        del patch[_DIRECTIVE]
    elif is_strict:
        raise InvalidInput(
            f"unknown $patch directive {directive!r} at {'.'.join(path) or 'the top'}",
            hint="use delete, replace or merge",
        )
    return directive


def _take_list_directive(patch: list[Any], path: tuple[str, ...]) -> str:
    """Return the directive that an item of its own gives a whole list, and take that item out."""
    first = next((item for item in patch if isinstance(item, dict) and _DIRECTIVE in item), None)
    if first is None or len(first) > 1:
        return "merge"
    directive = text_of(first[_DIRECTIVE])
    if directive not in ("delete", "replace", "merge"):
        raise InvalidInput(
            f"unknown $patch directive {directive!r} at {'.'.join(path)}", hint="use delete, replace or merge"
        )
    patch[:] = [item for item in patch if item is not first]
    return directive


def _united(old: list[Any], new: Any) -> list[Any]:
    """Return the plain values of the patch, then the others, each once."""
    by_text: dict[str, Any] = {}
    for value in (*(new if isinstance(new, list) else ()), *old):
        if isinstance(value, dict | list) and _DIRECTIVE not in value:
            raise InvalidInput("an item of a list of plain values is none", hint="write plain values")
        if value is not None:
            by_text.setdefault(text_of(value), value)
    return list(by_text.values())


def _wanted(sources: list[list[Any]], keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the key values of all items, each once; with several keys, one that lacks a key joins its like."""
    rows: dict[tuple[str, ...], None] = {}
    for source in sources:
        for item in source:
            members = item if isinstance(item, dict) else {}
            rows[tuple(_key_text(members, key) for key in keys)] = None
    values = list(rows)
    # A port without protocol is the same as one with, if nothing else tells them apart.
    if len(keys) > 1 and any("" in row for row in values):
        for first in range(len(values)):
            for second in range(len(values)):
                joined = _joined(values[first], values[second])
                if joined:
                    values[first] = values[second] = joined
    return values


def _key_text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return "null" if value is None and key in item else text_of(value)


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return both as one where they share a value and differ only in what one of them lacks."""
    if any(a and b and a != b for a, b in zip(first, second, strict=True)):
        return None
    has_common = any(a == b for a, b in zip(first, second, strict=True))
    return tuple(a or b for a, b in zip(first, second, strict=True)) if has_common else None


def _find(items: Any, keys: tuple[str, ...], values: tuple[str, ...]) -> Any:
    """Return the first item with these key values; a key without a value does not count."""
    pairs = [(key, text) for key, text in zip(keys, values, strict=True) if text] or list(
        zip(keys, values, strict=True)
    )
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and all(key in item and _key_text(item, key) == text for key, text in pairs):
            return item
    return _ABSENT


def _put(items: list[Any], keys: tuple[str, ...], values: tuple[str, ...], item: Any) -> None:
    """
    Replace the items with these key values, or append; None removes them.

    Without values nothing is the same and nothing is kept, which is what Kustomize does.
    """
    kept: list[Any] = []
    is_found = False
    for present in items:
        if present is None or present == {}:
            continue
        if not isinstance(present, dict):
            kept.append(present)
        elif values and all(
            key in present and (not text or _key_text(present, key) == text)
            for key, text in zip(keys, values, strict=False)
        ):
            is_found = True
            if item is not None:
                kept.append(item)
        elif values:
            kept.append(present)
    if item is not None and not is_found:
        kept.append(item)
    items[:] = kept


def _append(merged: list[Any], old: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """Return the merged items with what the old list still holds."""
    for item in list(old):
        members = item if isinstance(item, dict) else {}
        values = tuple(_key_text(members, key) for key in keys if key in members)
        if len(values) < len(keys):
            merged.append(item)
        if len(keys) > 1:
            _put(merged, keys, values, None)
        _put(merged, keys, values, item)
    return merged
