"""Field paths: ``.spec.containers[name="web"].image`` as the API server spells it, ``spec.replicas`` as users do."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import orjson

from gitsync.errors import InvalidInput

Path: TypeAlias = tuple[str | int, ...]

_QUOTED: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]')
_SELECTOR: Final = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_NEXT_KEY: Final = re.compile(r",(?=\w+=)")
_PAIR: Final = re.compile(r'([^=,]*)=("(?:[^"\\]|\\.)*"|[^,]*),?')

_STEP: Final = re.compile(
    r'\.?\["(?P<quoted>(?:[^"\\]|\\.)*)"\]'
    r"|\.?\[(?P<index>\d+)\]"
    r'|\.?\[(?P<key>[^\]=\[]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\]]*?)(?P<more>,[^\]]*)?\]'
    r"|\.?(?P<name>(?:\\.|[^.\[\]\\])+)"
)


def follow(document: Any, field: str) -> tuple[Path, bool]:
    """
    Return the part of a field's path that a document has, items by index, and whether that is all of it.

    A name may hold dots, which are not escaped in a path: the longest name that the document has is meant.
    """
    path: list[str | int] = []
    value = document
    rest = field
    while rest:
        step, length = _member(value, rest) if isinstance(value, dict) else _item(value, rest)
        if step is None:
            return tuple(path), False
        path.append(step)
        value = value[step]
        rest = rest[length:]
    return tuple(path), True


def _member(value: dict[str, Any], rest: str) -> tuple[str | None, int]:
    """Return the name with which a path continues, and its length there."""
    quoted = _QUOTED.match(rest)
    if quoted:
        name = quoted[1].replace('\\"', '"')
        return (name if name in value else None), quoted.end()
    names = (
        name
        for name in value
        if rest.startswith(f".{name}") and (len(rest) == len(name) + 1 or rest[len(name) + 1] in ".[")
    )
    member = max(names, key=len, default=None)
    return member, len(member) + 1 if member is not None else 0


def _item(value: Any, rest: str) -> tuple[int | None, int]:
    """Return the index of the item that ``[0]``, ``[name="web"]`` or ``[="x"]`` selects."""
    selector = _SELECTOR.match(rest)
    if selector is None or not isinstance(value, list):
        return None, 0
    if selector[1].isdecimal():
        index = int(selector[1])
        return (index if index < len(value) else None), selector.end()
    try:
        wanted = {key: orjson.loads(text) for key, text in _PAIR.findall(selector[1])}
    except orjson.JSONDecodeError:
        return None, 0
    matches = (index for index, item in enumerate(value) if _matches(item, wanted))
    return next(matches, None), selector.end()


def _matches(item: Any, wanted: dict[str, Any]) -> bool:
    if "" in wanted:
        return bool(item == wanted[""])
    return isinstance(item, dict) and all(
        # The API server's path has the key's default, which a manifest in Git leaves out.
        item.get(key) == value or (key == "protocol" and value == "TCP" and key not in item)
        for key, value in wanted.items()
    )


def parse_path(text: str) -> tuple[str, ...]:
    r"""
    Return the parts of a path; an item of a list is ``[key=value]`` or its index.

    A dot inside a name is written ``\.``, or the name as ``["a.b/c"]``. Raise InvalidInput for any other text.
    """
    parts: list[str] = []
    end = 0
    while end < len(text):
        step = _STEP.match(text, end)
        if step is None:
            raise InvalidInput(
                f"{text!r} is not a valid field path",
                location=f"character {end + 1}",
                hint='write spec.containers[name="web"].image',
            )
        parts.append(_part(step))
        end = step.end()
    return tuple(parts)


def _part(step: re.Match[str]) -> str:
    if step["key"]:
        more = "".join(f",{key}={_unquoted(value)}" for key, value in _PAIR.findall((step["more"] or "")[1:]))
        return f"[{step['key']}={_unquoted(step['value'])}{more}]"
    return step["index"] or _unescaped(step["quoted"] or step["name"] or "")


def show_path(parts: tuple[str, ...]) -> str:
    """Return parts as one text, as the API server spells it; the inverse of ``parse_path``."""
    return "".join(map(_spelled, parts))


def _spelled(part: str) -> str:
    if part.startswith("[") and part.endswith("]") and "=" in part:
        pairs = (pair.partition("=") for pair in _NEXT_KEY.split(part[1:-1]))
        spelled = ",".join(f'{key}="{_escaped(value)}"' for key, _, value in pairs)
        return f"[{spelled}]"
    if part.isdecimal():
        return f"[{part}]"
    if re.search(r'[.\[\]"\\]', part) or not part:
        return f'["{_escaped(part)}"]'
    return f".{part}"


def _escaped(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


def _unquoted(text: str) -> str:
    return _unescaped(text.strip('"'))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
