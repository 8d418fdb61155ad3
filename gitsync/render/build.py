"""
Build: from a folder of a tree to its desired manifests.

Pure: the same tree and options give the same result, byte for byte; ``files_read`` says what it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.tree import Entry, Tree
from gitsync.render import generators
from gitsync.render.accumulate import Accumulator, Builder
from gitsync.render.files import Files, ParseCache
from gitsync.render.kustomization import FILE_NAMES
from gitsync.render.loader import Loader
from gitsync.render.order import in_order
from gitsync.render.plain import plain_resources
from gitsync.render.references import fix_references
from gitsync.render.resource import Resource
from gitsync.render.scopes import Scopes
from gitsync.render.variables import resolve_variables

RENDERERS: Final = ("Auto", "Kustomize", "Plain")
_LOCAL_CONFIG: Final = "config.kubernetes.io/local-config"


@dataclass(frozen=True, slots=True)
class Build:
    """
    What a folder renders to.

    ``files_read`` holds every path the result depends on, also those that were looked for and are absent; one
    that ends in ``/`` stands for everything below it. A change to none of them cannot change the result.
    """

    manifests: tuple[Manifest, ...]
    files_read: frozenset[str]
    warnings: tuple[str, ...] = ()


def build(
    tree: Tree,
    path: str,
    *,
    cache: ParseCache | None = None,
    renderer: str = "Auto",
    load_restrictions: bool = True,
) -> Build:
    """
    Render a folder: as Kustomize does where it has a kustomization file, else as plain manifests.

    Raise InvalidInput, with ``file:line`` and a cure, for whatever is wrong with the input.
    """
    files = Files(tree, cache)
    folder, entry = files.resolve("", path)
    if entry is not Entry.FOLDER:
        what = "does not exist" if entry is None else "is not a folder"
        raise InvalidInput(f"the path {path or '.'} {what}", cure="correct the path of the application")
    loader = Loader(files, folder, is_restricted=load_restrictions)
    kustomization = loader.kustomization() if renderer != "Plain" else None
    if kustomization is None:
        if renderer == "Kustomize":
            raise InvalidInput(
                f"the folder has none of {', '.join(FILE_NAMES)}", where=path or ".", cure="add a kustomization.yaml"
            )
        resources = plain_resources(files, loader, folder)
        return Build(_finished(resources), frozenset(files.looked_at))
    builder = Builder(kustomization)
    builder.use_schema(loader, kustomization)
    made = builder.build(loader, kustomization, Accumulator())
    resources = made.resources
    _add_hashes(resources, builder.scopes)
    fix_references(resources, made.config.name_reference, builder.scopes)
    unused = resolve_variables(resources, made.variables, made.config.var_reference)
    resources = [one for one in resources if not _is_local(one)]
    resources = in_order(resources, kustomization.fields.get("sortOptions"), kustomization.where("sortOptions"))
    return Build(_finished(resources), frozenset(files.looked_at), (*builder.warnings, *unused))


def _add_hashes(resources: Sequence[Resource], scopes: Scopes) -> None:
    for resource in resources:
        if resource.needs_hash:
            scopes.remember(resource)
            resource.set_meta("name", f"{resource.name}-{generators.name_hash(resource.manifest)}")


def _is_local(resource: Resource) -> bool:
    return resource.labels("annotations").get(_LOCAL_CONFIG, "false") != "false"


def _finished(resources: Sequence[Resource]) -> tuple[Manifest, ...]:
    return tuple(_with_text_annotations(resource) for resource in resources)


def _with_text_annotations(resource: Resource) -> Manifest:
    """Return the manifest with its annotations as Kustomize leaves them: texts, or none at all."""
    annotations = (resource.manifest.get("metadata") or {}).get("annotations")
    if not isinstance(annotations, dict):
        return resource.manifest
    if not annotations:
        if resource.is_marked:
            del resource.editable["metadata"]["annotations"]
        return resource.manifest
    if not all(isinstance(value, str) for value in annotations.values()):
        resource.editable["metadata"]["annotations"] = resource.labels("annotations")
    return resource.manifest
