"""
The part of jq that names fields: ``.spec.containers[] | select(.name == "proxy") | .image``.

Members (``.a``, ``."a.b"``, ``["a"]``), items (``[]``, ``[0]``) and ``select`` of a member equal (or not) to a literal.
Anything else is rejected instead of being interpreted differently from jq.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gitsync.errors import InvalidInput
from gitsync.kube.field_path import follow, parse_path

Steps = tuple["PathStep", ...]
Concrete = tuple[str | int, ...]
"""A path in one value: member names and list indices."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<pipe>\|)
    | (?P<select>select\()
    | (?P<each>\[\s*\])
    | \[\s*(?P<index>-?\d+)\s*\]
    | \.?\[\s*(?P<key>"(?:[^"\\]|\\.)*")\s*\]
    | \.(?P<quoted>"(?:[^"\\]|\\.)*")
    | \.(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<dot>\.)(?=\s*(?:\[|\||$|==|!=))
    )\??""",
    re.VERBOSE | re.ASCII,
)
_COMPARISON = re.compile(
    r"""\s*(?P<operator>==|!=)\s*(?P<literal>"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)\s*\)""", re.ASCII
)
# Characters of an expression: nested ``select`` is parsed by recursion.
_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step: a member or an index, every item, or a condition on the value reached so far."""

    key: str | int | None = None
    every_item: bool = False
    condition: tuple[Steps, str, Any] | None = None


def paths(expression: str, value: Any) -> tuple[Concrete, ...]:
    """
    Return the paths in a value that an expression names; a part that does not fit the value names nothing.

    Raise InvalidInput when the expression uses other parts of jq.
    """
    return tuple(_follow(parse(expression), value, ()))


@functools.lru_cache(maxsize=512)
def parse(expression: str) -> Steps:
    """Return the steps of an expression; raise InvalidInput when it is not supported."""
    if len(expression) > _LIMIT:
        raise _refusal(expression)
    steps, end = _parse(expression, 0, expression)
    if end != len(expression):
        raise _refusal(expression)
    return steps


_SELECTOR = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_PAIR = re.compile(r'([\w-]+)=("(?:[^"\\]|\\.)*"|[^,]*),?')
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def expression_of(field: str, *sides: Any) -> str:
    """
    Return the jq path of a field as the API server spells it, ``.spec.containers[name="web"].image``.

    ``sides`` are the objects that may have the field, absent ones None: where a name with dots ends shows there alone.
    Of an item that no member identifies, it is the path of its list.
    """
    # an item of a set has no member that a path could select it by
    field = field.partition("[=")[0]
    whole = (keys for side in sides if isinstance(side, dict) for keys, is_all in [follow(side, field)] if is_all)
    keys = next(whole, None) or _parts(field)
    selectors = iter(text for text in _SELECTOR.findall(field) if not text.startswith('"'))
    expression = ""
    for key in keys:
        # ``parse_path`` leaves a selector as it is
        if isinstance(key, int) or key.startswith("["):
            selector = next(selectors, "")
            pairs = _PAIR.findall(selector)
            if not pairs:
                return f"{expression}[{selector}]" if selector.isdecimal() else expression or "."
            expression += "[]" + "".join(f" | select(.{name} == {value})" for name, value in pairs) + " | "
        else:
            expression += f".{key}" if _PLAIN_NAME.fullmatch(key) else f".{orjson.dumps(key).decode()}"
    return expression.removesuffix(" | ") or "."


def _parts(field: str) -> tuple[str, ...]:
    try:
        return parse_path(field)
    except InvalidInput:  # custom resources may have any names, and this is only a suggestion
        return (field.removeprefix("."),)


def _parse(text: str, position: int, whole: str) -> tuple[Steps, int]:
    steps: list[PathStep] = []
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            return tuple(steps), position + len(text[position:]) - len(text[position:].lstrip())
        position = match.end()
        if match["select"]:
            inner, position = _parse(text, position, whole)
            comparison = _COMPARISON.match(text, position)
            if comparison is None:
                raise _refusal(whole)
            position = comparison.end()
            steps.append(PathStep(condition=(inner, comparison["operator"], orjson.loads(comparison["literal"]))))
        elif match["each"]:
            steps.append(PathStep(every_item=True))
        elif match["index"]:
            steps.append(PathStep(key=int(match["index"])))
        elif match["key"] or match["quoted"]:
            steps.append(PathStep(key=str(orjson.loads(match["key"] or match["quoted"]))))
        elif match["name"]:
            steps.append(PathStep(key=match["name"]))


def _follow(steps: Steps, value: Any, path: Concrete) -> Iterator[Concrete]:
    if not steps:
        yield path
        return
    step = steps[0]
    rest = steps[1:]
    if step.condition is not None:
        if _holds(step.condition, value):
            yield from _follow(rest, value, path)
    elif step.every_item:
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _follow(rest, item, (*path, index))
        elif isinstance(value, dict):
            for name, member in value.items():
                yield from _follow(rest, member, (*path, name))
    elif isinstance(step.key, str):
        # In jq every member of null is null: a path may name a field that only the other side has.
        if isinstance(value, dict) or value is None:
            yield from _follow(rest, (value or {}).get(step.key), (*path, step.key))
    elif isinstance(step.key, int) and isinstance(value, list) and -len(value) <= step.key < len(value):
        index = step.key % len(value)
        yield from _follow(rest, value[index], (*path, index))


def _holds(condition: tuple[Steps, str, Any], value: Any) -> bool:
    steps, operator, literal = condition
    reached = [_at(value, path) for path in _follow(steps, value, ())]
    # jq emits the value once for each operand that holds; once is enough for a path.
    return any((operand == literal) is (operator == "==") for operand in reached)


def _at(value: Any, path: Concrete) -> Any:
    for key in path:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, dict) else None
        else:
            value = value[key]
    return value


def _refusal(expression: str) -> InvalidInput:
    return InvalidInput(
        f"{expression[:80]!r} is not a supported jq path",
        location="spec.sync.ignoreDifferences",
        hint='use members, [], [0] and select(.name == "text")',
    )
