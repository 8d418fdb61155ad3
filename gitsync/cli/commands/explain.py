"""``gitsync explain``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.builds import BuildOptions, LateHelm, find_object
from gitsync.cli.options import (
    LoadRestrictor,
    Output,
    ReleaseName,
    Remotes,
    Renderer,
    RendererName,
    Revision,
    ValueFiles,
    command,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.edit.engine import Editor
from gitsync.edit.proof import EditRoot, EditTarget
from gitsync.errors import InvalidInput, one_line
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.application import FolderRender
from gitsync.objects.charts import RELEASE, ChartOptions
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Tree
from gitsync.plan.mask import MASK, is_secret
from gitsync.render.provenance.paths import FieldPath
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.writer import write
from gitsync.source.local import open_path

_OBJECTS = ("object", "where", "step", "changes")
_FIELDS = ("field", "value", "where", "step")
_CELL_LENGTH = 80
_MOST_PROBED = 3
"""Fields for which the value of a chart is searched, by up to 16 renders each."""


@command
def explain(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, as for build.")],
    object: Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object; without it, all objects.")] = "",
    field: Annotated[
        str, typer.Argument(metavar="FIELD", help="A field such as spec.replicas; without it, all fields.")
    ] = "",
    rev: Revision = "",
    output: Output = Format.TABLE,
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
    remote: Remotes = None,
    values: ValueFiles = None,
    release_name: ReleaseName = RELEASE,
) -> Exit:
    """Show which file and line set a field of a rendered object, and the steps that changed it."""
    chart = ChartOptions(release_name, value_files=tuple(values or ()))
    options = BuildOptions(rev, renderer, load_restrictor, tuple(remote or ()), chart)
    place = open_path(path, options.revision)
    if not object:
        build = options.render(place, provenance=True)
        show(list(map(_object_row, build.manifests, build.provenance)), _OBJECTS, output, key="object")
        return Exit.OK
    rows = options.visit(place.tree, lambda tree: _field_rows(options, tree, place.path, object, field))
    if not rows:
        raise InvalidInput(
            f"field {field} not found", object=object, hint=f"list them: gitsync explain {path} {object}"
        )
    if output is Format.TABLE and field:
        _print_steps(rows)
    else:
        show([_cut(row) for row in rows] if output is Format.TABLE else rows, _FIELDS, output, key="field")
    return Exit.OK


def _field_rows(options: BuildOptions, tree: Tree, path: str, object: str, field: str) -> list[dict[str, Any]]:
    """Return the fields of an object; of one or a few, also the place of the value by which a chart sets it."""
    build = options.build(tree, path, provenance=True)
    position = find_object(build, object)
    manifest = build.manifests[position]
    history = build.provenance[position]
    fields = history.below(parse_path(field))
    rows = [_field_row(manifest, history, leaf) for leaf in fields]
    if field and len(fields) <= _MOST_PROBED and options.load_restrictions:
        root = EditRoot(
            (FolderRender("", path, options.renderer, options.chart or ChartOptions()),), is_application=True
        )
        editor = Editor(EditTarget(tree, root, lambda: (), LateHelm()))
        for leaf, row in zip(fields, rows, strict=True):
            if place := editor.value_place(position, leaf):
                row["steps"].append({"where": place, "step": "value of the chart"})
    return rows


def _print_steps(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        say(f"{row['field']}: {_text(row['value'])}")
        for step in row["steps"]:
            say(f"    {step['where']}: {step['step']}")


def _object_row(manifest: Manifest, history: History) -> dict[str, Any]:
    return {
        "object": str(ref_of(manifest)),
        "where": history.source.where(()),
        "step": history.step,
        "changes": len(history.changes),
    }


def _field_row(manifest: Manifest, history: History, leaf: FieldPath) -> dict[str, Any]:
    """Return a field with the steps that set it; the values of Secrets are masked."""
    steps = [{"where": setter.where, "step": setter.step} for setter in history.setters(leaf)]
    is_hidden = is_secret(ref_of(manifest)) and leaf[0] in ("data", "stringData")
    return {
        "object": str(ref_of(manifest)),
        "field": show_path(leaf),
        "value": MASK if is_hidden else history.leaves[leaf],
        **(steps[-1] if steps else {"where": "", "step": ""}),
        "steps": steps,
    }


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "value": _text(row["value"])}


def _text(value: Any) -> str:
    return one_line(value if isinstance(value, str) else write(value).strip(), _CELL_LENGTH)
