"""Rewrite the messages of the API server that show values as Go prints them."""

from __future__ import annotations

import re

_TYPED = re.compile(r"expected string, got &value\.valueUnstructured\{Value:(?P<value>.*?)\}")
_OTHER = re.compile(r"&value\.valueUnstructured\{Value:(?P<value>.*?)\}")
_VALUE = re.compile(r"Invalid value: \{")
_SHOWN = 120
"""Characters of a structured value that are shown."""
_STRUCT = re.compile(r"(?:&|\[\])?[a-z][a-z0-9]*\.[A-Z]\w*\{")


def readable(message: str) -> str:
    """Return a message without Go structs: ``expected string, got 1; quote the value``."""
    message = _TYPED.sub(lambda match: f"must be a string, not {match['value']}: quote the value", message)
    message = _OTHER.sub(lambda match: match["value"], message)
    message = _without_long_values(message)
    while (struct := _STRUCT.search(message)) is not None:
        end = _closing(message, struct.end())
        message = f"{message[: struct.start()]}(…){message[end:]}"
    return message


def _without_long_values(message: str) -> str:
    """Return a message without the long values of field errors: what is wrong follows them and would be cut off."""
    parts = []
    start = 0
    for value in _VALUE.finditer(message):
        end = _closing(message, value.end())
        if value.end() > start and end - value.end() > _SHOWN:
            parts.append(message[start : value.end() - 1] + "(…)")
            start = end
    return "".join(parts) + message[start:]


def _closing(text: str, start: int) -> int:
    """Return the index after the brace that closes the one before ``start``; braces in quoted texts do not count."""
    depth = 1
    is_quoted = False
    index = start
    while index < len(text) and depth:
        char = text[index]
        if char == "\\" and is_quoted:
            index += 1
        elif char == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (char == "{") - (char == "}")
        index += 1
    return index
