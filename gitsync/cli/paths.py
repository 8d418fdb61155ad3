"""Field paths as users write them: ``spec.replicas``, ``.spec.containers[name="web"].image``, ``[0]``."""

from __future__ import annotations

import re

from gitsync.errors import InvalidInput

_STEP = re.compile(
    r'\.?\["(?P<quoted>(?:[^"\\]|\\.)*)"\]'
    r"|\.?\[(?P<index>\d+)\]"
    r'|\.?\[(?P<key>[^\]=\[]+)=(?P<value>"(?:[^"\\]|\\.)*"|[^\]]*?)(?P<more>,[^\]]*)?\]'
    r"|\.?(?P<name>(?:\\.|[^.\[\]\\])+)"
)


def parse_path(text: str) -> tuple[str, ...]:
    r"""
    Return the parts of a path; an item of a list is ``[key=value]`` or its index.

    A dot inside a name is written ``\.``, or the name as ``["a.b/c"]``. Raise InvalidInput when the text is not a path.
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
        return f"[{step['key']}={_unescaped(step['value'].strip(chr(34)))}]"
    return step["index"] or _unescaped(step["quoted"] or step["name"] or "")


def show_path(parts: tuple[str, ...]) -> str:
    """Return parts as one text, spelled as the API server does; ``parse_path`` reads it."""
    return "".join(map(_shown, parts))


def _shown(part: str) -> str:
    if part.startswith("[") and part.endswith("]") and "=" in part:
        key, _, value = part[1:-1].partition("=")
        return f'[{key}="{value}"]'
    if part.isdigit():
        return f"[{part}]"
    if re.search(r'[.\[\]"\\]', part) or not part:
        quoted = re.sub(r'(["\\])', r"\\\1", part)
        return f'["{quoted}"]'
    return f".{part}"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
