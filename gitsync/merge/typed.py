"""
Typed values: whether a value fits its schema, and which field paths it holds.

One pass answers both for values that fit, nearly all; a second, slower one builds the messages for those that do
not. The messages are the API server's own, because users search for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.merge.fieldset import MEMBER, FieldSet, Node, human, key_element, member, named_element, value_element
from gitsync.merge.schema import DEDUCED, Schema


class TypedError(InvalidInput):
    """A value does not fit its schema; ``problems`` has each as ``path: what``."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    def upstream(self) -> str:
        """Return the text as the API server writes it, over several lines when there are several problems."""
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n".join(["errors:", *(f"  {problem}" for problem in self.problems)])


class _Misfit(Exception):
    """The fast pass found a value that does not fit."""


def field_set(schema: Schema, value: Any, *, duplicates: bool = False) -> FieldSet:
    """
    Return the paths that applying a value owns: its leaves, list items and map items.

    Raise TypedError when the value does not fit; ``duplicates`` lets a list hold one key or member twice,
    and such items are members without anything below them.
    """
    try:
        return FieldSet(collect(schema, value, duplicates) or {})
    # ``element_of`` raises TypedError without the path of the list: the second pass adds it, and all other problems.
    except (_Misfit, TypedError):
        raise TypedError(tuple(misfits(schema, value, duplicates=duplicates))) from None


def collect(schema: Schema, value: Any, duplicates: bool) -> Node | None:
    """Return the node of a value, None where it owns nothing itself; raise ``_Misfit``."""
    kind = type(value)
    if kind is dict:
        if not schema.is_map:
            raise _Misfit
        if schema.map_atomic:
            # Types below an atomic value are checked although nothing below it is owned.
            _check_map(schema, value, duplicates)
            return MEMBER
        return _collect_map(schema, value, duplicates)
    if kind is list:
        if not schema.is_list:
            raise _Misfit
        if schema.list_type == "atomic":
            _check_list(schema, value, duplicates)
            return MEMBER
        return _collect_list(schema, value, duplicates)
    if value is None:
        # Null fits any type; a map or list that is not atomic owns nothing of its own with it.
        if schema.is_map:
            return MEMBER if schema.map_atomic else None
        return MEMBER if schema.scalar or schema.list_type == "atomic" else None
    if kind not in schema.scalar_types:
        raise _Misfit
    return MEMBER


def _collect_map(schema: Schema, value: dict[str, Any], duplicates: bool) -> Node | None:
    fields = schema.fields
    declared = schema.declared
    out: Node = {}
    for name, child in value.items():
        below = fields[name]
        if below is None:
            raise _Misfit
        if type(child) in below.scalar_types:
            out[f"f:{name}"] = MEMBER
            continue
        node = collect(below, child, duplicates)
        # Null and {} are owned as values, an empty granular list is not (tofieldset.go of structured-merge-diff).
        if child is None or child == {}:
            node = MEMBER
        # A key of a map is a member itself; a declared field is implied by what is below it.
        elif name not in declared:
            node = member(node)
        if node is not None:
            out[f"f:{name}"] = node
    return out or None


def _collect_list(schema: Schema, value: list[Any], duplicates: bool) -> Node | None:
    items = schema.items or DEDUCED
    out: Node = {}
    for item in value:
        element = element_of(schema, item)
        if element in out:
            if not duplicates:
                raise _Misfit
            collect(items, item, duplicates)
            # All duplicates have this path, so a path below it would not name one value.
            out[element] = MEMBER
            continue
        out[element] = member(collect(items, item, duplicates))
    return out or None


def _check(schema: Schema, value: Any, duplicates: bool) -> None:
    kind = type(value)
    if kind in schema.scalar_types or value is None:
        return
    if kind is dict and schema.is_map:
        _check_map(schema, value, duplicates)
    elif kind is list and schema.is_list:
        _check_list(schema, value, duplicates)
    else:
        raise _Misfit


def _check_map(schema: Schema, value: dict[str, Any], duplicates: bool) -> None:
    fields = schema.fields
    for name, child in value.items():
        below = fields[name]
        if below is None:
            raise _Misfit
        _check(below, child, duplicates)


def _check_list(schema: Schema, value: list[Any], duplicates: bool) -> None:
    items = schema.items or DEDUCED
    if schema.list_type == "atomic":
        for item in value:
            _check(items, item, duplicates)
    else:
        _collect_list(schema, value, duplicates)


def element_of(schema: Schema, item: Any) -> str:
    """Return the path element of an item of a set or a keyed list; raise TypedError when it has none."""
    keys = schema.keys
    if keys and type(item) is dict:
        # Nearly every keyed list: by name, type or mountPath.
        if len(keys) == 1 and type(name := item.get(keys[0])) is str:
            return named_element(keys[0], name)
        key = {name: item[name] for name in keys if name in item}
        # A port without ``protocol`` is the item with protocol TCP.
        if len(key) < len(keys):
            defaults = ((name, key_default(schema, name)) for name in keys if name not in key)
            key.update((name, value) for name, value in defaults if value is not None)
        if key:
            return key_element(key)
    elif not keys and item is not None and type(item) not in (dict, list):
        return value_element(item)
    raise TypedError((_item_problem(schema, item),))


def key_default(schema: Schema, name: str) -> Any:
    """Return the default of a key of a keyed list, or None."""
    items = schema.items
    field = items.fields[name] if items is not None else None
    return field.default if field is not None else None


def misfits(schema: Schema, value: Any, path: tuple[str, ...] = (), *, duplicates: bool = False) -> Iterator[str]:
    """Yield each mismatch as ``path: what``, with the API server's message."""
    where = f"{human(path)}: " if path else ""
    kind = type(value)
    if value is None:
        return
    if kind is dict and schema.is_map:
        for name, child in value.items():
            below = schema.fields[name]
            # Stops at the first undeclared field, as the API server does.
            if below is None:
                yield f"{human((*path, f'f:{name}'))}: field not declared in schema"
                return
            yield from misfits(below, child, (*path, f"f:{name}"), duplicates=duplicates)
    elif kind is list and schema.is_list:
        yield from _list_misfits(schema, value, path, duplicates)
    elif kind not in schema.scalar_types:
        yield where + _expected(schema, value)


def _list_misfits(schema: Schema, value: list[Any], path: tuple[str, ...], duplicates: bool) -> Iterator[str]:
    where = f"{human(path)}: " if path else ""
    items = schema.items or DEDUCED
    elements = set()
    for index, item in enumerate(value):
        if schema.list_type == "atomic":
            element = f"i:{index}"
        else:
            problem = _item_problem(schema, item)
            if problem:
                yield f"{where}element {index}: {problem}"
                return
            element = element_of(schema, item)
            if element in elements and not duplicates:
                yield f"{where}duplicate entries for key {human((element,))}"
            elements.add(element)
        yield from misfits(items, item, (*path, element), duplicates=duplicates)


def _item_problem(schema: Schema, item: Any) -> str:
    """Return why an item has no path element, empty where it has one."""
    if schema.keys:
        if item is None:
            return "associative list with keys may not have a null element"
        if type(item) is not dict:
            return "associative list with keys may not have non-map elements"
        if not any(name in item or key_default(schema, name) is not None for name in schema.keys):
            names = " ".join(f'"{name}"' for name in schema.keys)
            return (
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return ""
    if type(item) is dict:
        return "associative list without keys has an element that's a map type"
    if type(item) is list:
        return "not supported: associative list with lists as elements"
    return "associative list without keys has an element that's an explicit null" if item is None else ""


def _expected(schema: Schema, value: Any) -> str:
    """Return what was expected; the value is printed as Go prints it, as in the API server."""
    if schema.is_map:
        return f"expected map, got &{{{go(value)}}}"
    if schema.scalar == "numeric":
        return f"expected numeric (int or float), got {_GO_TYPES.get(type(value), 'object')}"
    if schema.scalar == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{go(value)}}}"
    if schema.scalar == "boolean":
        return f"expected boolean, got &{{{go(value)}}}"
    if schema.scalar == "untyped":
        return f"expected any scalar, got &{{{go(value)}}}"
    return f"expected list, got &{{{go(value)}}}"


_GO_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def go(value: Any) -> str:
    """Return a value as Go's ``%v`` prints it."""
    if type(value) is dict:
        return "map[" + " ".join(f"{key}:{go(value[key])}" for key in sorted(value)) + "]"
    if type(value) is list:
        return "[" + " ".join(go(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)
