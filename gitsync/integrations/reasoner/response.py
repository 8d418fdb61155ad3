"""The response, read strictly: an author of manifests may have influenced it. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.errors import one_line
from gitsync.objects.change import Risk
from gitsync.ports import Advice

_EXPLANATION, _REASON = 1200, 300
_MEMBERS = {"explanation", "risk", "reason"}


class InvalidResponse(Exception):
    """The response does not have the requested form; the text says how, without quoting it."""


def read_answer(body: bytes, model: str) -> tuple[Advice, int]:
    """Return the advice in a chat completion, and how many tokens it took; raise InvalidResponse."""
    completion = _json(body)
    try:
        text = completion["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise InvalidResponse("is not a chat completion") from None
    answer = _json(text) if isinstance(text, str) else None
    if not isinstance(answer, dict) or answer.keys() != _MEMBERS:
        raise InvalidResponse("does not have the requested form")
    if not all(isinstance(value, str) for value in answer.values()):
        raise InvalidResponse("has a member that is not a string")
    if answer["risk"] not in {risk.value for risk in Risk}:
        raise InvalidResponse("names an unknown class")
    explanation, reason = one_line(answer["explanation"], _EXPLANATION), one_line(answer["reason"], _REASON)
    return Advice(f"{model} adds: {explanation}", Risk(answer["risk"]), reason), _tokens(completion, body)


def _json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidResponse("is not JSON") from None


def _tokens(completion: dict[str, Any], body: bytes) -> int:
    """Return what the endpoint says it used; by size where it does not."""
    usage = completion.get("usage")
    used = usage.get("total_tokens") if isinstance(usage, dict) else None
    return used if isinstance(used, int) and used > 0 else len(body) // 4
