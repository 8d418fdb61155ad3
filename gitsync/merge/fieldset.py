"""
FieldSet: a set of field paths, held as the ``fieldsV1`` of a managedFields entry.

A node is a dict of path elements: ``f:name``, ``k:{"name":"a"}``, ``v:"x"``, ``i:0``. A path is a member when its
node is empty or has a ``"."``; so equal sets are equal dicts, and reading one from the wire costs next to nothing.
Nodes are shared and never changed once built.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

Node: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

SELF: Final = "."
MEMBER: Final[Node] = {}
"""The node of a member without members below it."""


@dataclass(frozen=True, slots=True)
class FieldSet:
    """An immutable set of paths; ``root`` holds the elements of the first level and is never a member itself."""

    root: Node

    @classmethod
    def of(cls, paths: Iterable[Path]) -> FieldSet:
        """Return the set of some paths."""
        root: Node = {}
        for path in paths:
            root = union(root, _single(path))
        return cls(root)

    @classmethod
    def from_v1(cls, fields: Any) -> FieldSet:
        """Read a ``fieldsV1`` value; raise ValueError when it is not one."""
        return cls(_read(fields))

    def to_v1(self) -> Node:
        """Return the value for ``fieldsV1``."""
        return self.root

    def __bool__(self) -> bool:
        return bool(self.root)

    def __hash__(self) -> int:
        # Over the paths: equal roots may hold their elements in another order.
        return hash(frozenset(self))

    def __iter__(self) -> Iterator[Path]:
        return _paths(self.root, ())

    def __contains__(self, path: object) -> bool:
        node = self.root
        assert isinstance(path, tuple)
        if not path:
            return False
        for element in path:
            below = node.get(element)
            if below is None:
                return False
            node = below
        return not node or SELF in node

    def __or__(self, other: FieldSet) -> FieldSet:
        return FieldSet(union(self.root, other.root))

    def __sub__(self, other: FieldSet) -> FieldSet:
        return FieldSet(difference(self.root, other.root))

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(intersection(self.root, other.root))

    def without(self, other: FieldSet) -> FieldSet:
        """Return this set less the members of the other and everything below them."""
        return FieldSet(recursive_difference(self.root, other.root))

    def leaves(self) -> Iterator[Path]:
        """Yield the members that have no member below them."""
        return _leaves(self.root, ())


def _single(path: Path) -> Node:
    """Return the root of a set of one path."""
    node = MEMBER
    for element in reversed(path):
        node = {element: node}
    return node


def is_member(node: Node) -> bool:
    """Whether the path of a node is itself in the set."""
    return not node or SELF in node


def member(node: Node | None) -> Node:
    """Return the node with its own path in the set."""
    if not node:
        return MEMBER
    return node if SELF in node else {SELF: MEMBER, **node}


def union(a: Node, b: Node) -> Node:
    """Return the union of two roots."""
    if a is b or not b:
        return a
    return _union_below(a, b) if a else b


def _union_below(a: Node, b: Node) -> Node:
    out = None
    for element, theirs in b.items():
        ours = a.get(element)
        if ours is None:
            joined = theirs
        elif ours is theirs or element == SELF:
            continue
        # An empty node is a member; with children beside it, that needs the ".".
        elif not ours:
            joined = member(theirs)
        elif not theirs:
            joined = member(ours)
        else:
            joined = _union_below(ours, theirs)
        if joined is not ours:
            if out is None:
                out = dict(a)
            out[element] = joined
    # Not a copy when nothing was added: callers test for a change with ``is``.
    return a if out is None else out


def difference(a: Node, b: Node) -> Node:
    """Return the members of root ``a`` that are not in root ``b``; what is below a removed member stays."""
    if not a or not b:
        return a
    if a is b:
        return {}
    return _difference_below(a, b)


def _difference_below(a: Node, b: Node) -> Node:
    out = None
    for element, theirs in b.items():
        ours = a.get(element)
        if ours is None:
            continue
        rest: Node | None
        if element == SELF:
            rest = None
        elif not ours:
            rest = None if is_member(theirs) else ours
        elif not theirs:
            rest = _without_self(ours)
        else:
            rest = _none_if_void(_difference_below(ours, theirs), ours)
        if rest is not ours:
            if out is None:
                out = dict(a)
            if rest is None:
                del out[element]
            else:
                out[element] = rest
    return a if out is None else out


def _none_if_void(rest: Node, whole: Node) -> Node | None:
    """Return None where nothing is left; a member with nothing below it is written as an empty node."""
    if rest is whole:
        return whole
    if not rest:
        return None
    return MEMBER if len(rest) == 1 and SELF in rest else rest


def _without_self(node: Node) -> Node:
    return {element: below for element, below in node.items() if element != SELF} if SELF in node else node


def intersection(a: Node, b: Node) -> Node:
    """Return the members of both roots."""
    if not a or not b:
        return {}
    return a if a is b else _intersection_below(a, b)


def _intersection_below(a: Node, b: Node) -> Node:
    out: Node = {}
    # Symmetric, so the smaller root is walked: a set of changes against all that a manager owns.
    if len(b) < len(a):
        a, b = b, a
    for element, ours in a.items():
        theirs = b.get(element)
        if theirs is None:
            continue
        if element == SELF:
            out[SELF] = MEMBER
        elif not ours:
            if is_member(theirs):
                out[element] = MEMBER
        elif not theirs:
            if SELF in ours:
                out[element] = MEMBER
        else:
            both = _intersection_below(ours, theirs)
            if both:
                out[element] = MEMBER if len(both) == 1 and SELF in both else both
    return out


def recursive_difference(a: Node, b: Node) -> Node:
    """Return root ``a`` less the members of root ``b`` and everything below them."""
    if not a or not b:
        return a
    out = None
    for element, theirs in b.items():
        ours = a.get(element)
        if ours is None or element == SELF:
            continue
        if is_member(theirs):
            rest = None
        elif not ours:
            continue
        else:
            rest = _none_if_void(recursive_difference(ours, theirs), ours)
            if rest is ours:
                continue
        if out is None:
            out = dict(a)
        if rest is None:
            del out[element]
        else:
            out[element] = rest
    return a if out is None else out


def _paths(node: Node, prefix: Path) -> Iterator[Path]:
    for element, below in node.items():
        if element == SELF:
            continue
        path = (*prefix, element)
        if is_member(below):
            yield path
        if below:
            yield from _paths(below, path)


def _leaves(node: Node, prefix: Path) -> Iterator[Path]:
    for element, below in node.items():
        if element == SELF:
            continue
        path = (*prefix, element)
        if below:
            yield from _leaves(below, path)
        else:
            yield path


def _read(fields: Any) -> Node:
    if not isinstance(fields, dict):
        raise ValueError(f"fieldsV1 holds {type(fields).__name__} where a map is expected")
    out = None
    for element, below in fields.items():
        kind = element[:2]
        if kind == "f:" or element == SELF:
            spelled = element
        elif kind in ("k:", "v:", "i:"):
            spelled = _respell(element)
        else:
            raise ValueError(f"fieldsV1 holds an element of unknown kind: {element!r}")
        read = _read(below)
        # ``{".": {}}`` and ``{}`` are the same member; one spelling lets equal sets be equal dicts.
        if len(read) == 1 and SELF in read:
            read = MEMBER
        if read is not below or spelled != element:
            if out is None:
                out = dict(fields)
            if spelled != element:
                del out[element]
            out[spelled] = read
    return fields if out is None else out


@functools.lru_cache(maxsize=4096)
def _respell(element: str) -> str:
    """Return an element in the one spelling we compare: compact JSON, sorted keys, whole floats as integers."""
    if element[0] == "i":
        return f"i:{int(element[2:])}"
    # Not orjson: a key may be an integer of more than 64 bits. A JSONDecodeError is the promised ValueError.
    value = json.loads(element[2:])
    if element[0] == "k":
        if not isinstance(value, dict) or not value:
            raise ValueError(f"a key element names no fields: {element!r}")
        return key_element(value)
    return value_element(value)


_SPELLED: Final = frozenset({bool, int, str})
"""Types of values that have one spelling in JSON."""


def key_element(key: dict[str, Any]) -> str:
    """Return the element of a keyed list item: ``k:{"name":"a"}``."""
    for name, value in key.items():
        # 80 and 80.0 are one key
        if type(value) not in _SPELLED:
            key = {**key, name: plain(value)}
    return f"k:{_compact(key)}"


@functools.lru_cache(maxsize=8192)
def named_element(key: str, name: str) -> str:
    """Return the element of an item with one key, such as a container or a variable: few names, which recur."""
    return key_element({key: name})


def value_element(value: Any) -> str:
    """Return the element of a set's member: ``v:"x"``."""
    return f"v:{_compact(plain(value))}"


def _compact(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits, or a lone surrogate
        return json.dumps(value, separators=(",", ":"), sort_keys=True)


def plain(value: Any) -> Any:
    """Return a value with whole floats as integers, so that equal numbers are spelled alike."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is dict:
        return {key: plain(member) for key, member in value.items()}
    if type(value) is list:
        return [plain(item) for item in value]
    return value


def human(path: Path) -> str:
    """Return a path as the API server prints it: ``.spec.containers[name="a"].image``."""
    return "".join(_human(element) for element in path)


@functools.lru_cache(maxsize=4096)
def _human(element: str) -> str:
    kind = element[0]
    text = element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "i":
        return f"[{text}]"
    if kind == "v":
        return f"[={text}]"
    key = json.loads(text)
    return "[" + ",".join(f"{name}={_compact(key[name])}" for name in sorted(key)) + "]"
