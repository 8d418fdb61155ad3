"""Trace: where fields of rendered objects come from, for those who compare them with live ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from gitsync.kube.field_path import follow
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.render.build import Build
from gitsync.render.provenance.recorder import BUILD_STEP, FieldSetter, History

FieldSelection: TypeAlias = Mapping[ObjectRef, Iterable[str]]
Traces: TypeAlias = dict[ObjectRef, dict[str, tuple[FieldSetter, ...]]]

_VALUES: Final = 200
"""So many plain values inside one field are looked at."""


def trace(made: Build, wanted: FieldSelection) -> Traces:
    """
    Return the steps that set fields, in order; the last one decided it. The build was made with provenance.

    Fields are spelled as the API server does; the empty one stands for the object and what began it. What no file
    says, such as a mark of ours, is left out.
    """
    known = {
        ref_of(manifest): (manifest, history) for manifest, history in zip(made.manifests, made.provenance, strict=True)
    }
    found: Traces = {}
    for ref, fields in wanted.items():
        anywhere = ObjectRef(ref.group, ref.kind, "", ref.name)
        if ref in known or anywhere in known:
            manifest, history = known.get(ref) or known[anywhere]
            steps = {field: _steps(manifest, history, field) for field in fields}
            found[ref] = {field: setters for field, setters in steps.items() if setters}
    return found


def _steps(manifest: Manifest, history: History, field: str) -> tuple[FieldSetter, ...]:
    if not field:
        return (FieldSetter(history.step, history.source.where(())),)
    path, is_there = follow(manifest, field)
    if not is_there and field.startswith(".data"):  # of a Secret; the cluster knows no other
        path, is_there = follow(manifest, f".stringData{field.removeprefix('.data')}")
    if not is_there:
        return ()
    leaves = list(islice(history.below([str(part) for part in path]), _VALUES))
    ways = [history.setters(leaf) for leaf in leaves]
    if len(ways) > 1 and any(leaf in history.original for leaf in leaves):  # one line stands for all that began there
        begun = FieldSetter(history.step, history.source.where(tuple(str(part) for part in path)))
        ways = [(begun,), *(way[leaf in history.original :] for leaf, way in zip(leaves, ways, strict=True))]
    return tuple(dict.fromkeys(setter for way in ways for setter in way))


def place(steps: Iterable[FieldSetter]) -> str:
    """Return the file and line that had the last word; empty where no file had one."""
    return next((setter.where for setter in reversed(tuple(steps)) if setter.where != BUILD_STEP), "")
