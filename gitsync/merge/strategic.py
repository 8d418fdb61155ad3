"""
Strategic merge patch: a merge patch that knows which lists are merged by a key, with directives.

``$patch: delete`` and ``$patch: replace`` act on a map or an item, ``$retainKeys`` keeps only the named members,
``$setElementOrder/x`` gives the order of list x, ``$deleteFromPrimitiveList/x`` takes values out of it. The merge
key of a list is in the schema of the built-in types (``x-kubernetes-patch-merge-key``).
"""

from __future__ import annotations

from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import go
from gitsync.merge.values import same

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"


class StrategicError(InvalidInput):
    """A strategic patch cannot be applied; ``code`` is the HTTP status that the API server gives it."""

    # 500 by default: the API server reports a missing merge key or an unknown directive as its own error.
    def __init__(self, what: str, code: int = 500) -> None:
        super().__init__(what)
        self.text = what
        self.code = code


def strategic_merge(original: Any, patch: Any, schema: Schema) -> Any:
    """Return an object with a strategic merge patch applied; neither input is changed."""
    if not isinstance(patch, dict):
        raise StrategicError("invalid patch: it is not a map", 400)
    return _merge_map(original if isinstance(original, dict) else {}, patch, schema)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise _unknown_directive(directive, patch)
    out, patch = _retain_keys(original, patch)
    out, patch = _set_orders(out, patch, schema)
    for name, value in patch.items():
        deletes = name.startswith(_DELETE_VALUES)
        if deletes:
            name = name[len(_DELETE_VALUES) :]
            if not isinstance(value, list):
                raise StrategicError("invalid patch format of primitive list", 400)
        if value is None:
            out.pop(name, None)
        elif deletes and not isinstance(out.get(name), list):
            continue
        # There is nothing to merge with: nulls and directives in the value have nothing to act on and are dropped.
        elif name not in out or not _alike(out[name], value):
            fresh, keep = _without_directives(_without_nulls(value))
            if keep:
                out[name] = fresh
            else:
                out.pop(name, None)
        else:
            # An undeclared field is merged as well: decoding the result reports it, with the API server's message.
            out[name] = _merge_value(out[name], value, schema.fields[name] or DEDUCED, deletes)
    return out


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are of one JSON type."""
    if type(a) in (int, float) and type(b) in (int, float):
        return True
    return type(a) is type(b)


def _merge_value(original: Any, patch: Any, schema: Schema, deletes: bool) -> Any:
    if type(patch) is dict:
        return patch if "replace" in schema.patch_strategy else _merge_map(original, patch, schema)
    if type(patch) is list:
        if deletes or "merge" in schema.patch_strategy:
            return _merge_list(original, patch, schema, deletes)
        return patch
    return patch


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return copies of both after ``$retainKeys``: only the named members of the original are left."""
    if _RETAIN_KEYS not in patch:
        return dict(original), patch
    names = patch[_RETAIN_KEYS]
    if not isinstance(names, list):
        raise StrategicError("invalid patch format of retainKeys", 400)
    patch = {name: value for name, value in patch.items() if name != _RETAIN_KEYS}
    for name, value in patch.items():
        if value is not None and not name.startswith((_ORDER, _DELETE_VALUES)) and name not in names:
            raise StrategicError("invalid patch format of retainKeys", 400)
    return {name: value for name, value in original.items() if name in names}, patch


def _set_orders(
    original: dict[str, Any], patch: dict[str, Any], schema: Schema
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both with every list that has a ``$setElementOrder`` merged, in that order, and gone from the patch."""
    rest = dict(patch)
    for directive, order in patch.items():
        if directive.startswith(_ORDER):
            del rest[directive]
            name = directive[len(_ORDER) :]
            # Taken out of the patch: the members that remain there are merged afterwards.
            ordered = _ordered(original.get(name), rest.pop(name, None), order, schema.fields[name] or DEDUCED)
            if ordered is not None:
                original[name] = ordered
    return original, rest


def _ordered(ours: Any, theirs: Any, order: Any, schema: Schema) -> list[Any] | None:
    """Return a list merged with its patch, in the order given; None where neither is there."""
    for items in (order, *(value for value in (ours, theirs) if value is not None)):
        if not isinstance(items, list):
            raise StrategicError("invalid patch format of setElementOrder list", 400)
    key = schema.merge_key
    _check_order(theirs or [], order, key)
    if ours is None and theirs is None:
        return None
    if not ours and not theirs:
        raise StrategicError("no elements in any of the given slices")
    if theirs is None:
        return _in_order(ours, order, ours, key)
    if ours is None:
        return _in_order(_without_directives(theirs)[0], order, [], key)
    merged = _merge_value(ours, theirs, schema, False)
    return _in_order(merged, order, _server_order(ours, theirs, key) if key else ours, key)


def _server_order(ours: list[Any], theirs: list[Any], key: str) -> list[Any]:
    """
    Return what counts as the server's own order: items that are added take the places of those deleted.

    So a container that is renamed stays where it was among those of others, as it does on a real server.
    """
    gone = [_key_of(item, key) for item in theirs if _directive(item) == "delete"]
    kept = [item for item in ours if not any(same(item.get(key), value) for value in gone)]
    added = [item for item in theirs if not _directive(item) and _find(kept, key, _key_of(item, key)) < 0]
    return [*kept, *added][: len(ours)]


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Refuse a patch list that is not in the order that ``$setElementOrder`` gives."""
    # An item that is deleted is not in the final order.
    wanted = [item for item in patch if not (key and isinstance(item, dict) and _DIRECTIVE in item)]
    position = 0
    for item in order:
        if position < len(wanted) and _matches(wanted[position], item, key):
            position += 1
    if position < len(wanted):
        raise StrategicError(
            f"The order in patch list:\n{go(patch)}\n doesn't match {_ORDER[:-1]} list:\n{go(order)}\n"
        )


def _merge_list(original: list[Any], patch: list[Any], schema: Schema, deletes: bool) -> list[Any]:
    items = [*original, *patch]
    if not items:
        return original
    if type(items[0]) is list:
        raise StrategicError("lists of lists are not supported", 422)
    if any(not _alike(items[0], item) for item in items):
        raise StrategicError(f"list element types are not identical: {go([original, patch])}")
    if type(items[0]) is not dict:
        if deletes:
            return [item for item in original if not any(same(item, gone) for gone in patch)]
        merged = _distinct(items)
        return _in_order(merged, patch, original, "")
    key = schema.merge_key
    if not key:
        raise StrategicError(f"cannot merge lists without merge key for {schema.name or 'list'}")
    original, patch = _special_items(original, patch, key)
    merged = list(original)
    for item in patch:
        position = _find(merged, key, _key_of(item, key))
        if position < 0:
            merged.append(_without_directives(item)[0])
        else:
            merged[position] = _merge_map(merged[position], item, schema.items or DEDUCED)
    return _in_order(merged, patch, original, key)


def _special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return both lists after executing the directives of the items that carry ``$patch``."""
    plain = []
    replace = False
    for item in patch:
        directive = _directive(item)
        if directive == "delete":
            gone = _key_of(item, key)
            original = [mine for mine in original if not same(mine.get(key), gone)]
        elif directive == "replace":
            replace = True
        else:
            plain.append(item)
    return (plain, []) if replace else (original, plain)


def _in_order(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """
    Return the items in the order given; those it does not name keep their places among the server's.

    An item that only the server has is placed before a named one that followed it on the server.
    """
    named = [item for item in merged if _position(order, item, key) >= 0]
    others = [item for item in merged if _position(order, item, key) < 0]
    named.sort(key=lambda item: _position(order, item, key))
    others.sort(key=lambda item: _position(server, item, key))
    out = []
    other_position = named_position = 0
    while other_position < len(others) or named_position < len(named):
        if other_position < len(others) and named_position < len(named):
            mine = _position(server, others[other_position], key)
            yours = _position(server, named[named_position], key)
            take_left = 0 <= mine < yours
        else:
            take_left = other_position < len(others)
        if take_left:
            out.append(others[other_position])
            other_position += 1
        else:
            out.append(named[named_position])
            named_position += 1
    return out


def _position(items: list[Any], item: Any, key: str) -> int:
    return next((i for i, other in enumerate(items) if _matches(other, item, key)), -1)


def _matches(a: Any, b: Any, key: str) -> bool:
    return same(_key_of(a, key), _key_of(b, key)) if key else same(a, b)


def _find(items: list[Any], key: str, value: Any) -> int:
    return next((i for i, item in enumerate(items) if key in item and same(item[key], value)), -1)


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise StrategicError("invalid patch format of setElementOrder list", 400)
    if key not in item:
        raise StrategicError(f"map: {go(item)} does not contain declared merge key: {key}")
    return item[key]


def _distinct(items: list[Any]) -> list[Any]:
    out: list[Any] = []
    marks = set()
    for item in items:
        # True == 1 in Python
        mark = (type(item) is bool, item)
        if mark not in marks:
            marks.add(mark)
            out.append(item)
    return out


def _directive(item: Any) -> str:
    """Return the directive of a list item, empty without ``$patch``; reject one that is not allowed in a list."""
    if not isinstance(item, dict) or _DIRECTIVE not in item:
        return ""
    directive = item[_DIRECTIVE]
    if directive == "merge":
        raise StrategicError("merging lists cannot yet be specified in the patch")
    if directive not in ("delete", "replace"):
        raise _unknown_directive(directive, item)
    return str(directive)


def _without_nulls(value: Any) -> Any:
    """Return a value without its null members, at every depth."""
    if type(value) is dict:
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if type(value) is list:
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return a value without the maps that carry ``$patch``, and whether it is itself to be kept."""
    if type(value) is dict:
        if _DIRECTIVE in value:
            return None, False
        kept = {name: _without_directives(member) for name, member in value.items()}
        return {name: member for name, (member, keep) in kept.items() if keep}, True
    if type(value) is list:
        items = [_without_directives(item) for item in value]
        return [item for item, keep in items if keep], True
    return value, True


def _unknown_directive(directive: Any, patch: dict[str, Any]) -> StrategicError:
    return StrategicError(f"unknown patch type: {directive} in map: {go(patch)}")
