"""Edit the fields of small trees that are written as texts."""

from __future__ import annotations

from gitsync.edit.engine import Edit, Editor, EditScope
from gitsync.edit.proof import EditedTree, EditRoot, EditTarget
from gitsync.kube.field_path import parse_path
from gitsync.objects.charts import Helm
from tests.render.kustomize_cases import MemoryTree

ROOTS = ("over", "other")


THIS_ENVIRONMENT = EditScope()


def tree_of(files: dict[str, str]) -> MemoryTree:
    return MemoryTree({name: text.encode() for name, text in files.items()})


def edited(
    files: dict[str, str],
    field: str,
    value: str,
    scope: EditScope = THIS_ENVIRONMENT,
    kind: str = "Deployment",
    helm: Helm | None = None,
) -> Edit:
    """Set a field of the one object of a kind that the folder ``over``, or the whole tree, renders to."""
    folders = {name.rpartition("/")[0] for name in files}
    root = "over" if "over" in folders else ""
    roots = tuple(EditRoot.folder(folder) for folder in ROOTS if folder in folders)
    editor = Editor(EditTarget(tree_of(files), EditRoot.folder(root), lambda: roots, helm))
    position = next(index for index, item in enumerate(editor.build.manifests) if item["kind"] == kind)
    return editor.set(position, parse_path(field), value, scope)


def changed_lines(files: dict[str, str], edit: Edit) -> list[str]:
    """Return the lines of the edited file that are new."""
    old = files[edit.file].splitlines()
    return [line for line in edit.content.decode().splitlines() if line not in old]


def tree_after(files: dict[str, str], edit: Edit) -> EditedTree:
    return EditedTree(tree_of(files), {edit.file: edit.content})
