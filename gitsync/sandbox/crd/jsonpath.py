"""The part of JSONPath that printer columns use: members, indices, wildcards and simple filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Step = Callable[[list[Any]], list[Any]]

_TOKEN = re.compile(
    r"""
    \.\.(?P<deep>[\w\-]+)
  | \.(?P<member>(?:[\w\-/]|\\.)+|\*)
  | \[\?\(@(?P<path>[^=!<>)\s]*)\s*(?:(?P<test>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[\w.\-]+))?\s*\)\]
  | \[(?P<index>-?\d+)\]
  | \[(?P<slice>-?\d*:-?\d*)\]
  | \[\*\]
  | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
    """,
    re.VERBOSE,
)


class PathError(ValueError):
    """A path that cannot be read."""


def parse_path(path: str) -> Callable[[Any], list[Any]]:
    """Return a function that gives the values at a path; raise PathError."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        raise PathError(f"unrecognized path {path!r}")
    steps: list[Step] = []
    position = 0
    while position < len(text) and text != ".":
        found = _TOKEN.match(text, position)
        if found is None:
            raise PathError(f"unrecognized part {text[position:]!r}")
        steps.append(_step(found))
        position = found.end()

    def values(obj: Any) -> list[Any]:
        current = [obj]
        for step in steps:
            current = step(current)
        return current

    return values


def _step(found: re.Match[str]) -> Step:
    if found["deep"]:
        return lambda values: [item for value in values for item in _deep(value, found["deep"])]
    if found["index"] is not None:
        index = int(found["index"])
        return lambda values: [v[index] for v in values if isinstance(v, list) and -len(v) <= index < len(v)]
    if found["slice"] is not None:
        first, _, last = found["slice"].partition(":")
        part = slice(int(first) if first else None, int(last) if last else None)
        return lambda values: [item for v in values if isinstance(v, list) for item in v[part]]
    if found["path"] is not None:
        return _filter(found)
    name = found["member"] or (found["quoted"] or "")[1:-1]
    if not name or name == "*":
        return _all
    name = re.sub(r"\\(.)", r"\1", name)
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _all(values: list[Any]) -> list[Any]:
    items: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            items += value.values()
        elif isinstance(value, list):
            items += value
    return items


def _deep(value: Any, name: str) -> list[Any]:
    found: list[Any] = []
    if isinstance(value, dict):
        if name in value:
            found.append(value[name])
        for item in value.values():
            found += _deep(item, name)
    elif isinstance(value, list):
        for item in value:
            found += _deep(item, name)
    return found


def _filter(found: re.Match[str]) -> Step:
    inner = parse_path(found["path"])
    wanted = found["value"]
    expected = wanted[1:-1] if wanted and wanted[0] in "\"'" else wanted

    def keep(item: Any) -> bool:
        values = inner(item)
        if found["test"] is None:
            return bool(values)
        equal = any(_text(value) == expected for value in values)
        return equal if found["test"] == "==" else bool(values) and not equal

    return lambda values: [item for value in values if isinstance(value, list) for item in value if keep(item)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
