"""What is wrong with a YAML text, in plain words and with its line, counted from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import yaml
from yaml.reader import ReaderError

from gitsync.render.yaml.locations import Path, places


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, on which line from 0, and what cures it."""

    what: str
    line: int
    hint: str


_INDENT: Final = "line its parts up with the lines around"
_WORDS: Final = (  # part of libyaml's problem, what it means, what cures it; the first match decides
    ("mapping values are not allowed", "a ': ' where no mapping can begin", "quote the value, or indent it"),
    ("block sequence entries are not allowed", "a '- ' where no list can begin", "put it on its own line"),
    ("mapping keys are not allowed", "a '? ' where no mapping can begin", "quote the value"),
    ("unexpected end of stream", "a quoted text is not closed", "close the quote"),
    ("unexpected document indicator", "a quoted text is not closed", "close the quote"),
    ("could not find expected ':'", "a line has no ':' after its key", "write 'key: value', or indent the text"),
    ("did not find expected ',' or ']'", "a list in [ ] is not closed", "close it, or separate its items by commas"),
    (
        "did not find expected ',' or '}'",
        "a mapping in { } is not closed",
        "close it, or separate its members by commas",
    ),
    ("did not find expected key", "the indentation does not match the lines above", _INDENT),
    ("did not find expected '-' indicator", "the indentation does not match the list above", _INDENT),
    ("expected <document start>", "no document can begin here", "indent it, or put '---' on a line before it"),
    ("found a tab character", "a tab indents this line", "indent with spaces"),
    ("undefined tag handle", "the tag has no known prefix", "remove the tag"),
    (
        "unknown escape character",
        "a backslash in double quotes begins no known escape",
        "write \\\\, or use single quotes",
    ),
)


def explain(error: yaml.YAMLError, text: str) -> Fault:
    """Return what a parser's error means for the person who wrote the text."""
    if isinstance(error, ReaderError):
        return _bad_character(error, text)
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Fault(f"the YAML cannot be read: {error}", 0, "correct it")
    problem = error.problem or ""
    line = error.problem_mark.line
    if "cannot start any token" in problem:
        return _bad_start(text[error.problem_mark.index : error.problem_mark.index + 1], line)
    # libyaml reports the end of the file; the quote that is open helps more.
    if "quoted scalar" in (error.context or "") and error.context_mark is not None:
        line = error.context_mark.line
    for part, what, hint in _WORDS:
        if part in problem:
            return Fault(what, line, hint)
    return Fault(" ".join(filter(None, (error.context, problem))), line, "correct the YAML")


def _bad_character(error: ReaderError, text: str) -> Fault:
    code = error.character if isinstance(error.character, int) else ord(error.character)
    line = text.count("\n", 0, max(text.find(chr(code)), 0))
    return Fault(f"the control character U+{code:04X} is not allowed", line, "remove it, or write it as an escape")


def _bad_start(character: str, line: int) -> Fault:
    if character == "\t":
        return Fault("a tab indents this line", line, "indent with spaces")
    return Fault(f"a value cannot begin with the character {character}", line, "quote the value")


def duplicate_key(text: str) -> tuple[str | int, int, int]:
    """Return a key that a mapping of the text has twice, with both lines from 0."""
    lines: dict[Path, int] = {}
    for path, line, _ in places(text):
        if path in lines:
            return path[-1], lines[path], line
        lines[path] = line
    raise AssertionError("the text has no duplicate key")


def field_at(text: str, start: int) -> str:
    """Return the path, with dots, of the value that starts with this character; empty for none."""
    path = next((place.path for place in places(text) if place.start == start), ())
    return ".".join(map(str, path))
