"""Promotion: what one environment has and the next has not, as values to be edited there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gitsync.edit.adopt import ClusterValue
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.render.build import Build
from gitsync.render.provenance.paths import FieldPath, leaves_of

IMAGES: Final = "images"
_PODS: Final = ((), ("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where objects of different kinds have the spec of Pods."""


def promoted_values(source: Build, target: Build, take: Sequence[str], name: str) -> Iterator[ClusterValue]:
    """
    Yield the fields of ``take`` that the target has with another value than the source, with the source's value.

    An object is the same in both where it comes from the same document of the same file, or has the same kind and
    name. What only one of them has is not taken. ``name`` is that of the source, for the commit. Raise InvalidInput
    for an entry of ``take`` that is neither ``images`` nor ``Kind.field``.
    """
    wanted = [_wanted(entry) for entry in take]
    partners = _partners(source)
    for position, manifest in enumerate(target.manifests):
        partner = partners.get(_place(target, position)) or partners.get(_name(manifest))
        if partner is None:
            continue
        theirs = dict(leaves_of(partner))
        for path, value in leaves_of(manifest):
            if any(_is_meant(manifest, path, entry) for entry in wanted) and theirs.get(path, value) != value:
                yield ClusterValue(ref_of(manifest), show_path(path), theirs[path], name)


def _wanted(entry: str) -> tuple[str, FieldPath]:
    if entry == IMAGES:
        return "", ()
    kind, _, field = entry.partition(".")
    if not kind or not field or not kind[0].isupper():
        raise InvalidInput(
            f"{entry!r} is neither images nor a field",
            location="spec.promotion.take",
            hint="write Kind.field, such as ConfigMap.data",
        )
    return kind, tuple(parse_path(field))


def _is_meant(manifest: Manifest, path: FieldPath, entry: tuple[str, FieldPath]) -> bool:
    kind, field = entry
    if kind:
        return manifest.get("kind") == kind and path[: len(field)] == field
    if path[-1:] != ("image",):
        return False
    rests = (path[len(prefix) :] for prefix in _PODS if path[: len(prefix)] == prefix)
    return any(rest[:2] in (("spec", "containers"), ("spec", "initContainers")) for rest in rests)


def _partners(source: Build) -> Mapping[Any, Manifest]:
    """Return the objects of a build by place and by name; what two of them share names neither."""
    partners: dict[Any, Manifest | None] = {}
    for position, manifest in enumerate(source.manifests):
        for key in (_place(source, position), _name(manifest)):
            partners[key] = None if key in partners else manifest
    return {key: manifest for key, manifest in partners.items() if manifest is not None}


def _place(build: Build, position: int) -> Any:
    """Return the document that an object comes from; a file of one environment alone has the same place in no other."""
    origin = build.sources[position]
    return origin.file, origin.document, build.manifests[position].get("kind")


def _name(manifest: Manifest) -> Any:
    ref = ref_of(manifest)
    return ref.of, ref.name
