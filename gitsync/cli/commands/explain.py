"""``gitsync explain``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.builds import BuildOptions, find_object
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
from gitsync.errors import InvalidInput, one_line
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.charts import RELEASE, ChartOptions
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.plan.mask import MASK, is_secret
from gitsync.render.provenance.paths import FieldPath
from gitsync.render.provenance.recorder import History
from gitsync.render.yaml.writer import write
from gitsync.source.local import open_path

_OBJECTS = ("object", "where", "step", "changes")
_FIELDS = ("field", "value", "where", "step")
_CELL_LENGTH = 80


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
    build = options.render(open_path(path, options.revision), provenance=True)
    if not object:
        show(list(map(_object_row, build.manifests, build.provenance)), _OBJECTS, output, key="object")
        return Exit.OK
    position = find_object(build, object)
    manifest = build.manifests[position]
    history = build.provenance[position]
    fields = history.below(parse_path(field))
    if not fields:
        raise InvalidInput(
            f"field {field} not found",
            object=str(ref_of(manifest)),
            hint=f"list them: gitsync explain {path} {object}",
        )
    rows = [_field_row(manifest, history, leaf) for leaf in fields]
    if output is Format.TABLE and field:
        _print_steps(rows)
    else:
        show([_cut(row) for row in rows] if output is Format.TABLE else rows, _FIELDS, output, key="field")
    return Exit.OK


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
