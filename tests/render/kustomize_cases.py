"""
Replay the Kustomize conformance cases; ``run`` is also what ``make conformance`` calls.

A case passes on documents when the build gives the recorded documents in order, or refuses what was refused.
"""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render.build import build
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write_all


class MemoryTree:
    """A tree of given texts; a value is bytes, or a str that is the target of a link."""

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        self._files = {posixpath.normpath(path): content for path, content in files.items()}
        self._folders: dict[str, set[str]] = {"": set()}
        for path in self._files:
            while path:
                parent, _, name = path.rpartition("/")
                self._folders.setdefault(parent, set()).add(name)
                path = parent

    def entry(self, path: str) -> Entry | None:
        if path in self._files:
            return Entry.LINK if isinstance(self._files[path], str) else Entry.FILE
        return Entry.FOLDER if path in self._folders else None

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._folders[path]))

    def read(self, path: str) -> bytes:
        content = self._files[path]
        return content.encode() if isinstance(content, str) else content

    def blob_id(self, path: str) -> str:
        return str(hash(self.read(path)))


@dataclass(frozen=True)
class Result:
    """What came of one case."""

    name: str
    source_test: str
    documents: bool
    identical: bool
    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether the documents are those that were recorded."""
        return self.documents


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    """
    Yield every case of the suite.

    A folder beside it named after a newer Kustomize, such as ``kustomize-5.8``, replaces cases of the same name.
    """
    folders = sorted(folder.parent.glob(f"{folder.name}-*"))
    newer = {case["name"]: case for other in folders for case in _cases(other)}
    for case in _cases(folder):
        yield newer.pop(case["name"], case)
    yield from newer.values()


def _cases(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        yield from json.loads(file.read_text())


def tree_of(case: Mapping[str, Any]) -> MemoryTree:
    """Return the files of a case."""
    files: dict[str, bytes | str] = {}
    for path, content in case["files"].items():
        if isinstance(content, str):
            files[path] = content.encode()
        elif "symlink" in content:
            files[path] = content["symlink"]
        else:
            files[path] = base64.b64decode(content["base64"])
    return MemoryTree(files)


def run_case(case: Mapping[str, Any]) -> Result:
    """Build one case and compare it with what was recorded."""
    name, source_test, expected = case["name"], case["source_test"], case["expect"]
    root = posixpath.normpath(case["root"])
    try:
        made = build(
            tree_of(case),
            "" if root == "." else root,
            renderer="Kustomize",
            load_restrictions=case["options"].get("load_restrictor") != "none",
        )
    except InvalidInput as error:
        is_right = "error" in expected
        return Result(name, source_test, is_right, is_right, "" if is_right else f"refused: {error}")
    if "error" in expected:
        return Result(name, source_test, False, False, f"accepted, but expected {expected['error'][:200]}")
    text = write_all(made.manifests)
    is_identical = text == expected["output"]
    is_same = is_identical or list(made.manifests) == read_all(expected["output"])
    return Result(name, source_test, is_same, is_identical, "" if is_identical else text)


def run(folder: Path) -> list[Result]:
    """Return the result of every case of a suite."""
    return [run_case(case) for case in cases(folder)]
