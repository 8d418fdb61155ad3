"""
Internal annotations, in which Kustomize keeps the state of a resource during a build.

It accepts those in its input, so they count here too. None is part of the result.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.resource import BuildStep, PreviousId, Resource
from gitsync.render.yaml.scalar_types import text_of
from gitsync.render.yaml.writer import write

ORIGIN: Final = "config.kubernetes.io/origin"
TRANSFORMATIONS: Final = "alpha.config.kubernetes.io/transformations"
_INTERNAL: Final = "internal.config.kubernetes.io"
_PREVIOUS: Final = tuple(f"{_INTERNAL}/{name}" for name in ("previousKinds", "previousNamespaces", "previousNames"))
_PREFIXES: Final = f"{_INTERNAL}/prefixes"
_SUFFIXES: Final = f"{_INTERNAL}/suffixes"
_OF_NAMES: Final = frozenset({*_PREVIOUS, _PREFIXES, _SUFFIXES})
_NEEDS_HASH: Final = f"{_INTERNAL}/needsHashSuffix"
_MAY_RENAME: Final = f"{_INTERNAL}/allowNameChange"
_MAY_CHANGE_KIND: Final = f"{_INTERNAL}/allowKindChange"

INTERNAL: Final = frozenset(
    {
        *(*_OF_NAMES, _NEEDS_HASH, _MAY_RENAME, _MAY_CHANGE_KIND),
        *(
            f"{_INTERNAL}/{name}"
            for name in (
                *("refBy", "generatorBehavior", "path", "index", "seqindent", "id"),
                *("annotations-migration-resource-id", "helm-generated"),
            )
        ),
        *("config.kubernetes.io/path", "config.kubernetes.io/index", "config.k8s.io/id"),
        *(ORIGIN, TRANSFORMATIONS),
    }
)
"""The annotations that are never part of the result."""


class NameHistory(NamedTuple):
    """What a resource was before."""

    previous: tuple[PreviousId, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


def name_history(manifest: Manifest, file: str) -> NameHistory:
    """Return what is noted of a resource's names; raise InvalidInput where the notes contradict each other."""
    notes = _notes(manifest)
    if _OF_NAMES.isdisjoint(notes):
        return _NO_PAST
    rows = [_texts(notes, name) for name in _PREVIOUS]
    # Kustomize panics here (``PrevIds``), without a place to correct.
    if all(rows) and len({len(row) for row in rows}) > 1:
        raise InvalidInput(
            f"the annotations {', '.join(_PREVIOUS)} do not list equally many",
            location=file,
            hint="remove them; Kustomize keeps notes in them while it builds",
        )
    previous = tuple(PreviousId(*row) for row in zip(*rows, strict=False))  # one that is absent says nothing
    return NameHistory(previous, _texts(notes, _PREFIXES), _texts(notes, _SUFFIXES))


_NO_PAST: Final = NameHistory()


def wants_hash(manifest: Manifest) -> bool:
    """Return whether the hash of its content belongs into the object's name."""
    return _is_enabled(manifest, _NEEDS_HASH)


def may_rename(patch: Manifest) -> bool:
    """Return whether a patch may change the name of its target."""
    return _is_enabled(patch, _MAY_RENAME)


def may_change_kind(patch: Manifest) -> bool:
    """Return whether a patch may change the kind of its target."""
    return _is_enabled(patch, _MAY_CHANGE_KIND)


def _notes(manifest: Manifest) -> Mapping[str, Any]:
    meta = manifest.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    return notes if isinstance(notes, dict) else {}


def _texts(notes: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(text_of(notes[name]).split(",")) if name in notes else ()


def _is_enabled(manifest: Manifest, name: str) -> bool:
    notes = _notes(manifest)
    return name in notes and text_of(notes[name]) == "enabled"


MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "kustomize-(devel)"}
"""The label that kubectl 1.32 writes for ``managedByLabel``."""


def _lines(step: BuildStep) -> list[str]:
    """Return a step as lines of YAML, in the order Kustomize writes them."""
    if step.path:
        return [f"path: {_text(step.path)}"]
    members = {"apiVersion": "builtin", "kind": step.kind, "name": step.name, "namespace": step.namespace}
    by = [f"  {key}: {_text(value)}" for key, value in members.items() if value]
    return [f"configuredIn: {_text(step.configured_in)}", "configuredBy:", *by]


def _text(value: str) -> str:
    return write(value).strip()


def join_origin(folder: str, path: str) -> str:
    """Return a path relative to the folder of the build."""
    return posixpath.normpath(posixpath.join(folder, path))


def annotate(resource: Resource, wanted: frozenset[str]) -> None:
    """Write the annotations that are wanted; the others of their kind are dropped elsewhere."""
    values: dict[str, Any] = {}
    if "originAnnotations" in wanted and resource.source is not None:
        values[ORIGIN] = "".join(f"{line}\n" for line in _lines(resource.source))
    if "transformerAnnotations" in wanted and resource.steps:
        values[TRANSFORMATIONS] = "".join(
            f"{'- ' if number == 0 else '  '}{line}\n"
            for step in resource.steps
            for number, line in enumerate(_lines(step))
        )
    if values:
        meta = resource.editable["metadata"]
        meta["annotations"] = {**(meta.get("annotations") or {}), **values}
