"""JSON text: its value, its duplicate keys, and Go's words for what is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_KEY_ENDS = re.compile(rb'"[ \t\r\n]*:')


class MalformedText(Exception):
    """Text that is neither JSON nor YAML; the message is the parser's, as Go words it."""


def parse_json(body: bytes) -> tuple[Any, list[str]]:
    """Return the value and the paths of duplicate keys (the last one won); raise MalformedText."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MalformedText(_go_json_error(body)) from None
    # orjson does not report duplicates; comparing lengths is cheaper than a second parser for each body.
    if not isinstance(value, (dict, list)) or _has_all_members(body, orjson.dumps(value)):
        return value, []
    return value, _json_duplicates(body)


def _go_json_error(body: bytes) -> str:
    """Return what Go's encoding/json says of text that Python's reader refuses."""
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        if not rest or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        if error.msg == "Extra data":
            return f"invalid character '{rest[0]}' after top-level value"
        if error.msg.startswith("Expecting property name"):
            return f"invalid character '{rest[0]}' looking for beginning of object key string"
        if "delimiter" in error.msg and "':'" in error.msg:
            return f"invalid character '{rest[0]}' after object key"
        if "delimiter" in error.msg:
            return f"invalid character '{rest[0]}' after object key:value pair"
        return f"invalid character '{rest[0]}' looking for beginning of value"
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"


def _has_all_members(body: bytes, written: bytes) -> bool:
    """
    Whether JSON without white space has each member of the text that it was read from: False where that is unclear.

    Without escapes a quote before a colon ends a key, or begins a text such as ``":x"``, which counts in both.
    """
    if len(written) == len(body.strip()):
        return True
    return b"\\" not in body and len(_KEY_ENDS.findall(body)) == written.count(b'":')


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text, with duplicates."""


def _json_duplicates(body: bytes) -> list[str]:
    duplicates: list[str] = []
    try:
        tree = json.loads(body, object_pairs_hook=_Pairs)
    except RecursionError:
        raise MalformedText("exceeded max depth") from None
    pending: list[tuple[str, Any]] = [("", tree)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _Pairs):
            keys: set[str] = set()
            for key, member in value:
                inner = f"{path}.{key}" if path else key
                if key in keys and inner not in duplicates:
                    duplicates.append(inner)
                keys.add(key)
                pending.append((inner, member))
        elif isinstance(value, list):
            pending.extend((f"{path}[{index}]", item) for index, item in enumerate(value))
    return duplicates
