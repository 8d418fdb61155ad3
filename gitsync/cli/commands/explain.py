"""``gitsync explain``."""

from __future__ import annotations

from typing import Any

from gitsync.cli.commands.build import BuildOptions
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import InvalidInput, one_line
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.plan.mask import MASK, is_secret
from gitsync.render.build import Build
from gitsync.render.provenance.recorder import FieldPath, History
from gitsync.render.yaml.writer import write
from gitsync.source.local import open_path

_OBJECTS = ("object", "where", "step", "changes")
_FIELDS = ("field", "value", "where", "step")
_SHOWN = 80


def explain(path: str, object: str, field: str, wish: BuildOptions, output: Format) -> Exit:
    """Print every object with its file, or the fields of one with what set them; values of Secrets are hidden."""
    made = wish.render(open_path(path, wish.revision), provenance=True)
    if not object:
        show(list(map(_object_row, made.manifests, made.provenance)), _OBJECTS, output)
        return Exit.OK
    manifest, history = _find(made, object)
    fields = history.below(parse_path(field))
    if not fields:
        raise InvalidInput(
            f"there is no field {field}",
            object=str(ref_of(manifest)),
            hint=f"list them: gitsync explain {path} {object}",
        )
    rows = [_field_row(manifest, history, leaf) for leaf in fields]
    if output is not Format.TABLE or not field:
        show([_in_a_cell(row) for row in rows] if output is Format.TABLE else rows, _FIELDS, output)
        return Exit.OK
    for row in rows:
        say(f"{row['field']}: {_text(row['value'])}")
        for step in row["steps"]:
            say(f"    {step['where']}: {step['step']}")
    return Exit.OK


def _find(made: Build, wanted: str) -> tuple[Manifest, History]:
    """Return the object of a name such as ``Deployment/web`` or ``deployment/shop/web``."""
    kind, _, name = wanted.partition("/")
    known = [
        (ref_of(manifest), manifest, history) for manifest, history in zip(made.manifests, made.provenance, strict=True)
    ]
    found = [
        (ref, manifest, history)
        for ref, manifest, history in known
        if kind.lower() in (ref.kind.lower(), str(ref.of).lower()) and name in (ref.name, f"{ref.namespace}/{ref.name}")
    ]
    if len(found) == 1:
        return found[0][1:]
    if found:
        names = ", ".join(f"{ref.of}/{ref.namespace}/{ref.name}" for ref, *_ in found)
        raise InvalidInput(f"{wanted} is more than one object", hint=f"name one of {names}")
    alike = [ref for ref, *_ in known if ref.kind.lower() == kind.lower()] or [ref for ref, *_ in known]
    names = ", ".join(sorted(f"{ref.kind}/{ref.name}" for ref in alike))
    raise InvalidInput(f"there is no {wanted}", hint=f"write KIND/NAME: {names}")


def _object_row(manifest: Manifest, history: History) -> dict[str, Any]:
    return {
        "object": str(ref_of(manifest)),
        "where": history.source.where(()),
        "step": history.step,
        "changes": len(history.changes),
    }


def _field_row(manifest: Manifest, history: History, leaf: FieldPath) -> dict[str, Any]:
    steps = [{"where": setter.where, "step": setter.step} for setter in history.setters(leaf)]
    is_hidden = is_secret(ref_of(manifest)) and leaf[0] in ("data", "stringData")
    return {
        "object": str(ref_of(manifest)),
        "field": show_path(leaf),
        "value": MASK if is_hidden else history.leaves[leaf],
        **(steps[-1] if steps else {"where": "", "step": ""}),
        "steps": steps,
    }


def _in_a_cell(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "value": _text(row["value"])}


def _text(value: Any) -> str:
    return one_line(value if isinstance(value, str) else write(value).strip(), _SHOWN)
