"""``gitsync set``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.builds import find_object
from gitsync.cli.options import command
from gitsync.cli.output import Exit, say
from gitsync.edit.engine import Edit, Editor, EditScope
from gitsync.edit.proof import ChangedField, EditedTree
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Tree
from gitsync.plan.mask import MASK, is_secret
from gitsync.preview.roots import find_roots
from gitsync.source.local import open_path, repository_of
from gitsync.source.work_tree import commit_files, require_unchanged

# a key in brackets may contain "="
_ASSIGNMENT = re.compile(r"((?:[^=\[]|\[[^\]]*\])+)=(.*)", re.DOTALL)


@command
def set(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, as for build.")],
    object: Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object, by its rendered name.")],
    assignments: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE...", help="Fields such as spec.replicas=3.")],
    also: Annotated[bool, typer.Option("--also", help="Change other environments that read the file too.")] = False,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="Add a patch to the folder's own kustomization instead.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and write nothing.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the change.")] = False,
    branch: Annotated[str, typer.Option(help="Commit the change on a new branch of this name.")] = "",
) -> Exit:
    """Change the one value in a file that sets a field of a rendered object, and prove it by rendering."""
    target = open_path(path)
    top, _ = repository_of(Path(path).resolve())
    if (commit or branch) and top is None:
        raise InvalidInput("is not inside a Git repository, so nothing can be committed", location=path)
    tree: Tree = target.tree
    files: dict[str, bytes] = {}
    position = -1
    subject = ""
    for field, text in map(_parsed, assignments):
        editor = Editor(tree, target.path, lambda: _roots(target.tree, target.path) if top else (target.path,))
        if position < 0:
            position = find_object(editor.build, object)
        manifest = editor.build.manifests[position]
        subject = str(ref_of(manifest))
        edit = editor.set(position, field, text, EditScope(also, overlay))
        files[edit.file] = edit.content
        # each assignment is made on the result of those before
        tree = EditedTree(target.tree, files)
        for line in _lines(manifest, field, edit):
            say(line)
    if not dry_run:
        message = f"Set {', '.join(_names(assignments))} of {subject} in {target.path or '.'}"
        _write(top or Path("/"), files, message, is_committed=commit or bool(branch), branch=branch)
    return Exit.OK


def _parsed(assignment: str) -> tuple[tuple[str, ...], str]:
    match = _ASSIGNMENT.fullmatch(assignment)
    if match is None:
        raise InvalidInput(f"{assignment!r} is not of the form FIELD=VALUE", hint="write spec.replicas=3")
    return parse_path(match[1]), match[2]


def _names(assignments: Iterable[str]) -> list[str]:
    return [show_path(_parsed(assignment)[0]).removeprefix(".") for assignment in assignments]


def _roots(tree: Tree, path: str) -> tuple[str, ...]:
    """Return the deployed folders of the repository; an Application of another one counts if the path is here too."""
    return tuple(dict.fromkeys((path, *(root.path for root in find_roots(tree, lambda _: True)))))


def _lines(manifest: Manifest, field: Sequence[str], edit: Edit) -> Iterable[str]:
    is_hidden = is_secret(ref_of(manifest)) and field[0] in ("data", "stringData")
    values = (MASK, MASK) if is_hidden else (_shown(edit.old), _shown(edit.new))
    yield f"{edit.file}:{edit.line}: {show_path(tuple(field))}: {' -> '.join(values)}"
    for other in edit.others:
        yield f"  also {other.object} {show_path(other.field)}: {_change(other)} ({other.root or '.'})"


def _change(difference: ChangedField) -> str:
    if difference.object.startswith("Secret "):
        return f"{MASK} -> {MASK}"
    return f"{_shown(difference.old)} -> {_shown(difference.new)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _write(top: Path, files: dict[str, bytes], message: str, *, is_committed: bool, branch: str) -> None:
    """Write the files; the tree outside Git is the whole disk."""
    if is_committed:
        # before a file is written: its other changes would be committed too
        require_unchanged(top, list(files))
    for file, content in files.items():
        (top / file).write_bytes(content)
    if is_committed:
        say(f"committed {commit_files(top, list(files), message, branch)}")
