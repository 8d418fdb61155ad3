"""The custom resource definitions of gitsync, as they are installed."""

from __future__ import annotations

from gitsync.errors import InvalidInput
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at
from gitsync.render.yaml.reader import read_all
from gitsync.shipped import shipped_folder

_NAMES = ("application", "applicationset", "agent", "multiagentsystem")


def application_crd() -> Manifest:
    """Return the CustomResourceDefinition of Application."""
    return _read("application")


def definitions() -> tuple[Manifest, ...]:
    """Return the CustomResourceDefinitions of all kinds of gitsync."""
    return tuple(_read(name) for name in _NAMES)


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


def _read(name: str) -> Manifest:
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
