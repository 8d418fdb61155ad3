"""
What Kustomize makes of a folded text (``>``): it writes the text and reads it back once before it is used.

Its writer puts an empty line more than needed before an indented line and at the end, so these lines are real.
"""

from __future__ import annotations

import re
from typing import Final

from yaml._yaml import CParser
from yaml.events import ScalarEvent

_NEVER_FOLDED: Final = re.compile(r" \n| \Z|[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
"""Texts that go-yaml writes in double quotes instead, where nothing is lost."""
_CHANGES: Final = re.compile(r"\A[ \t]|\n[ \t]|\n\n\Z")


def refolded(text: str) -> str:
    """Return the text of a folded scalar after go-yaml v3 has written and read it."""
    if not _CHANGES.search(text) or _NEVER_FOLDED.search(text):
        return text
    *lines, last = text.split("\n")
    is_doubled = text.lstrip("\n")[:1] not in (" ", "\t", "")
    hint = "2" if text[0] in " \n" else ""
    chomp = "-" if last else "+" if text.endswith("\n\n") else ""
    written = "".join(_line(line, is_doubled) for line in lines) + (last and f"  {last}")
    return _read(f"text: >{hint}{chomp}\n{written}")


def _line(line: str, is_doubled: bool) -> str:
    if not line:
        return "\n"
    return f"  {line}\n\n" if is_doubled and line[0] not in " \t" else f"  {line}\n"


def _read(document: str) -> str:
    parser = CParser(document)
    texts: list[str] = []
    while (event := parser.get_event()) is not None:
        if isinstance(event, ScalarEvent):
            texts.append(event.value)
    return texts[1]
