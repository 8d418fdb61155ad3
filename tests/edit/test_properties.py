"""Random edits of recorded kustomizations give the exact value and lose no byte outside, or are refused."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from gitsync.edit.engine import Editor, EditScope
from gitsync.edit.proof import EditedTree, EditRoot, EditTarget
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.build import build
from gitsync.render.provenance.paths import FieldPath, indexes, leaves_of
from gitsync.source.local import FolderTree

CASES = sorted((Path(__file__).parents[1] / "render" / "kustomize" / "cases").glob("*.txt"))
TEXTS = (
    "x",
    "yes",
    "1.10",
    "0755",
    "null",
    "a: b",
    "a # b",
    "'",
    '"',
    "two words",
    " padded ",
    "a\nb\n",
    "é",
    "[a]",
    "",
)
EDITS = 6


def unpacked(case: Path, folder: Path) -> str:
    _, *parts = re.split(r"(?m)^-- (\S+) --\n", case.read_text())
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    del files["expected"]
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return "over" if (folder / "over").exists() else "base"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_an_edit_gives_the_value_and_keeps_all_other_bytes(case: Path, tmp_path: Path) -> None:
    root = unpacked(case, tmp_path)
    tree = FolderTree(tmp_path)
    editor = Editor(EditTarget(tree, EditRoot.folder(root), lambda: (EditRoot.folder(root),)))
    choose = random.Random(case.stem)
    fields = [
        (position, path)
        for position, manifest in enumerate(editor.build.manifests)
        for path, value in leaves_of(manifest)
        if not isinstance(value, dict | list)
    ]
    hints: list[str] = []
    for position, path in choose.sample(fields, min(EDITS, len(fields))):
        old = editor.build.manifests[position]
        text = choose.choice(TEXTS) if isinstance(dict(leaves_of(old))[path], str) else str(choose.randrange(100))
        try:
            edit = editor.set(position, path, text, EditScope(also=True))
        except InvalidInput as refusal:
            hints.append(refusal.hint)
            continue
        made = build(EditedTree(tree, {edit.file: edit.content}), root).manifests
        same_kind = [item for item in made if item["kind"] == old["kind"]]
        # also by index, for another name of an item is another path
        values = [value for item in same_kind for value in (dict(leaves_of(item)).get(path), _at(item, old, path))]
        assert edit.new in values, (path, text)
        assert edit.new == text or not isinstance(edit.new, str)
        _only_one_place_changed(tree.read(edit.file), edit.content, str(edit.old), text)

    assert all(hints), "a refusal says what to do"


def _at(manifest: Manifest, old: Manifest, path: FieldPath) -> Any:
    """Return the value where a field of the old manifest was, None where nothing is."""
    value: Any = manifest
    for part in indexes(old, path):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _only_one_place_changed(old: bytes, new: bytes, value: str, text: str) -> None:
    """Fail where more than the characters of one value differ."""
    head = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - head
    tail = next((n for n in range(most) if old[len(old) - 1 - n] != new[len(new) - 1 - n]), most)
    removed = old[head : len(old) - tail]
    added = new[head : len(new) - tail]
    assert removed.count(b"\n") <= value.count("\n") + 2, removed
    assert len(added) <= 6 * len(text) + 40 or b"patch" in added, added
