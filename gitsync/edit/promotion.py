"""Promotion: what one environment has and the next has not, as values to be edited there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gitsync.edit.adopt import ClusterValue
from gitsync.edit.images import parse_image
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path, show_path
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.semver import parse_version
from gitsync.render.build import Build
from gitsync.render.provenance.paths import FieldPath, leaves_of

IMAGES: Final = "images"
_PODS: Final = ((), ("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
"""Where objects of different kinds have the spec of Pods."""


def promoted_values(source: Build, target: Build, take: Sequence[str], name: str) -> Iterator[tuple[ClusterValue, str]]:
    """
    Yield the fields of ``take`` that the target has with another value than the source, with the source's value.

    An object is the same in both where it comes from the same document of the same file, or has the same kind and
    name. What only one of them has is not taken. ``name`` is that of the source, for the commit. The text is why a
    value is not taken: an image of another name, and an older version. Raise InvalidInput for an entry of ``take`` that
    is neither ``images`` nor ``Kind.field``.
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
                taken = ClusterValue(ref_of(manifest), show_path(path), theirs[path], name)
                yield taken, _image_problem(value, theirs[path]) if path[-1:] == ("image",) else ""


def chain_of(name: str, source_of: Callable[[str], str]) -> tuple[str, ...]:
    """
    Return the Applications that lead to one by promotion, the first one first, and itself last.

    ``source_of`` returns the name that an Application promotes from, empty for none. Raise InvalidInput for a circle,
    in which two values would change places without an end.
    """
    chain = [name]
    while source := source_of(chain[0]):
        if source in chain:
            circle = " -> ".join([source, *chain[: chain.index(source) + 1]])
            raise InvalidInput(f"the promotions are a circle: {circle}", location="spec.promotion.from")
        chain.insert(0, source)
    return tuple(chain)


def _image_problem(declared: Any, offered: Any) -> str:
    """Return why an image does not replace another one: it is not the same program, or it is older."""
    current = parse_image(str(declared))
    newer = parse_image(str(offered))
    if current.name != newer.name:
        return f"{newer.name} is another image than {current.name}, which only this environment has"
    current_version = parse_version(current.tag)
    newer_version = parse_version(newer.tag)
    if current_version is not None and newer_version is not None and newer_version.rank < current_version.rank:
        return f"{newer.tag} is older than {current.tag}"
    return ""


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
