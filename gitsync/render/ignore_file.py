"""``.gitsyncignore``: the files and folders that plain manifests leave out, in the syntax of ``.gitignore``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render.kustomize.files import Files

IGNORE_FILE: Final = ".gitsyncignore"
_TOKEN: Final = r"(?s)\*\*/|/\*\*\Z|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]|\\.|."
_FIXED: Final = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class _Pattern(NamedTuple):
    expression: re.Pattern[str]
    is_kept: bool
    is_folder: bool


class IgnoreRules:
    """The rules of one folder; the last one that matches a path decides."""

    def __init__(self, patterns: tuple[_Pattern, ...] = ()) -> None:
        self._patterns = patterns

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path, relative to the folder, is left out; what is below an ignored folder is not asked."""
        for pattern in reversed(self._patterns):
            if (is_folder or not pattern.is_folder) and pattern.expression.fullmatch(path):
                return not pattern.is_kept
        return False


def read_rules(files: Files, folder: str) -> IgnoreRules:
    """Return the rules of a folder's file, if it has one; raise InvalidInput for an invalid pattern."""
    path, entry = files.resolve(folder, IGNORE_FILE)
    if entry is not Entry.FILE:
        return IgnoreRules()
    text = files.read(path).decode("utf-8", "replace")
    return IgnoreRules(tuple(_patterns(text, path)))


def _patterns(text: str, path: str) -> Iterator[_Pattern]:
    for number, line in enumerate(text.splitlines(), 1):
        written = line.rstrip()
        if not written or written.startswith("#"):
            continue
        is_kept, body = written.startswith("!"), written.removeprefix("!")
        name = body.rstrip("/")
        try:
            yield _Pattern(re.compile(_expression(name)), is_kept, body.endswith("/"))
        except re.error as error:
            what, where = f"{written!r} is not a pattern: {error}", f"{path}:{number}"
            raise InvalidInput(what, location=where, hint="write it as in .gitignore") from error


def _expression(name: str) -> str:
    """Return the regular expression of a pattern; one without a slash matches at any depth."""
    anywhere = "" if "/" in name else "(?:.*/)?"
    return anywhere + "".join(_translated(token) for token in re.findall(_TOKEN, name.removeprefix("/")))


def _translated(token: str) -> str:
    if token in _FIXED:
        return _FIXED[token]
    if token.startswith("[") and len(token) > 1:
        return f"[^{token[2:]}" if token[1] == "!" else token
    return re.escape(token[-1])
