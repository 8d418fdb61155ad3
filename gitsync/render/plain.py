"""Plain manifests: a folder without a kustomization file is all the YAML and JSON files in and below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render.errors import ErrorCollector
from gitsync.render.kustomize.files import Files, join
from gitsync.render.kustomize.loader import Loader
from gitsync.render.resources.resource import Id, Resource
from gitsync.render.resources.scopes import Scopes

_ENDINGS: Final = (".yaml", ".yml", ".json")


def plain_resources(files: Files, loader: Loader, folder: str, noting: ErrorCollector) -> list[Resource]:
    """Return the objects of all manifests in and below a folder, in the order of their paths."""
    scopes = Scopes()
    found: dict[Id, Resource] = {}
    for path in _manifests(files, folder):
        with noting:
            for resource in loader.resources(path):
                one = scopes.id_of(resource)
                other = found.setdefault(one, resource)
                if other is not resource:
                    raise InvalidInput(
                        f"the object is already in {other.origin.file}",
                        location=path,
                        object=str(one),
                        hint="remove one of them",
                    )
    if not found and not noting.found:
        raise EmptyRender(
            "the folder has neither a kustomization file nor manifests",
            location=folder or ".",
            hint="correct the path of the application",
        )
    return list(found.values())


def _manifests(files: Files, folder: str) -> Iterator[str]:
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        inner: list[str] = []
        for name in files.names(here):
            if name.startswith("."):
                continue
            path, entry = files.resolve(here, name)
            if entry is Entry.FILE and name.lower().endswith(_ENDINGS):
                yield path
            elif entry is Entry.FOLDER and path == join(here, name):  # a link to a folder could lead in a circle
                inner.append(path)
        waiting += reversed(inner)
