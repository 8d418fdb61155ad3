"""The custom resource definitions of gitsync, as they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.files import shipped_folder
from gitsync.objects.keys import VERSION, VERSION_ANNOTATION
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.render.yaml.reader import read_all

_NAMES = ("application", "applicationset", "agent", "multiagentsystem")


def application_crd() -> Manifest:
    """Return the CustomResourceDefinition of Application."""
    return _read("application")


def definitions() -> tuple[Manifest, ...]:
    """Return the CustomResourceDefinitions of all kinds of gitsync."""
    return tuple(_read(name) for name in _NAMES)


class Standing(StrEnum):
    """How an installed definition relates to the one of this program."""

    CURRENT = "current"
    OLDER = "older"
    NEWER = "newer"
    """Of a later version, or of another build of this one that has fields which this one lacks."""


def standing_of(live: Manifest, definition: Manifest) -> Standing:
    """Return how an installed definition relates to the one of this program."""
    installed = version_of_definition(live)
    ours = version_of_definition(definition)
    if installed == ours and is_current(live, definition):
        return Standing.CURRENT
    if version_order(installed) != version_order(ours):
        return Standing.NEWER if version_order(installed) > version_order(ours) else Standing.OLDER
    return Standing.NEWER if lost_fields(live, definition) else Standing.OLDER


def version_of_definition(definition: Manifest) -> str:
    """Return the version of gitsync that a definition is of, empty for one of before 0.5.0."""
    return annotations_of(definition).get(VERSION_ANNOTATION, "")


def version_order(version: str) -> tuple[tuple[int, ...], bool, int]:
    """Return a key that orders versions such as ``0.5.0.dev3`` and ``0.5.0``; text without a number comes first."""
    release, is_development, number = version.partition(".dev")
    parts = tuple(int(part) for part in release.split(".") if part.isdecimal())
    return parts, not is_development, int(number) if number.isdecimal() else 0


def lost_fields(live: Manifest, definition: Manifest) -> list[str]:
    """Return the fields of an installed definition that another one lacks: the API server would drop their values."""
    known = set(_fields(_schema(definition)))
    return sorted(set(_fields(_schema(live))) - known)


def unknown_fields(manifest: Manifest, definition: Manifest) -> list[str]:
    """Return the fields of an object that a definition does not have."""
    return sorted(set(_unknown(manifest.get("spec"), at(_schema(definition), "properties", "spec"), "spec")))


def is_current(live: Manifest, definition: Manifest) -> bool:
    """
    Return whether an installed definition has the schema and columns of the one of this version.

    With another schema the API server prunes fields that it does not know, before the controller reads them.
    """
    return _version(live) == _version(definition)


def _version(definition: Manifest) -> tuple[object, object]:
    for version in at(definition, "spec", "versions", default=[]):
        if version.get("name") == VERSION:
            return version.get("schema"), version.get("additionalPrinterColumns")
    return None, None


def _schema(definition: Manifest) -> Any:
    return at(_version(definition)[0], "openAPIV3Schema") or {}


def _fields(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all properties of a schema, those of list items with ``[]``."""
    for name, member in (schema.get("properties") or {}).items():
        yield f"{path}.{name}".lstrip(".")
        yield from _fields(member, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _fields(schema["items"], f"{path}[]")


def _unknown(value: Any, schema: Any, path: str) -> Iterator[str]:
    """Yield the paths of the members that a schema would have the API server drop."""
    if not isinstance(schema, dict):
        return
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, schema.get("items"), f"{path}[]")
    # a map of free keys, or a part that is kept as it is, loses nothing
    if not isinstance(value, dict) or "properties" not in schema or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, member in value.items():
        if name not in schema["properties"]:
            yield f"{path}.{name}"
        else:
            yield from _unknown(member, schema["properties"][name], f"{path}.{name}")


@cache
def _read(name: str) -> Manifest:
    """Return a definition of the installation, read once: that takes 20 ms, and a start needs each of them twice."""
    # the files of the installation: kustomize and kubectl read them there too, so one copy is enough
    file = shipped_folder("manifests") / "gitsync" / "crds" / f"{name}.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            "a definition of gitsync is missing", location=str(file), hint="install gitsync again"
        ) from error
    manifest: Manifest = read_all(text, f"{name}.yaml")[0]
    return manifest
