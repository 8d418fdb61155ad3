"""The Kubernetes objects of a YAML or JSON text; lists are taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.render.errors import raise_all
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import place, read_all
from gitsync.render.yaml.scalar_types import unfolded

_STYLED: Final = YamlLimits(bytes=64 << 20, styles=True)  # the tree has the limit of one file
_PREFIX_LIMIT: Final = 57
_SUFFIX_LENGTH: Final = 6
"""Characters of a generated name: together no more than the value of a label, in which Jobs repeat their name."""


def objects_in(
    text: bytes | str, file: str, *, generates_names: bool = False, is_kustomized: bool = True
) -> list[tuple[int, Manifest]]:
    """
    Return the objects of a text with the index of its document; lists are split into their items.

    With ``generates_names``, an object with only a ``metadata.generateName`` gets a name from its content. Unless
    ``is_kustomized``, folded texts are those of YAML, as the API server gets them from kubectl and Helm: Kustomize
    changes some of them when it writes them.
    Raise InvalidInput with ``file:line`` for objects without a kind or a name.
    """
    documents = read_all(text, file, limits=_STYLED)
    objects: list[tuple[int, Manifest]] = []
    waiting: list[tuple[int, tuple[str | int, ...], Any]] = [
        (index, (), document) for index, document in enumerate(documents)
    ]
    faults: list[InvalidInput] = []
    for index, path, document in waiting:  # the items of a List join the end
        if not is_kustomized:
            document = unfolded(document)
        if generates_names:
            document = _named(document)
        fault = _fault(document)
        if fault:
            what, hint, inside = fault
            source = text if isinstance(text, bytes) else text.encode()
            faults.append(InvalidInput(what, location=place(file, source, (*path, *inside), index), hint=hint))
            continue
        if not _is_list(document):
            objects.append((index, document))
            continue
        items = document.get("items")
        if items is not None and not isinstance(items, list):
            raise InvalidInput(
                f"items of a {document['kind']} must be a list",
                location=place(file, text if isinstance(text, bytes) else text.encode(), (*path, "items"), index),
            )
        waiting += [(index, (*path, "items", position), item) for position, item in enumerate(items or ()) if item]
    raise_all(faults)
    return objects


def _named(document: Any) -> Any:
    """
    Return an object with a name after its ``generateName``: the API server would give it another one in each sync.

    The name depends on nothing but the object, so that a build is reproducible and a restart finds a running hook.
    """
    meta = document.get("metadata") if isinstance(document, dict) else None
    prefix = meta.get("generateName") if isinstance(meta, dict) else None
    if meta is None or not isinstance(prefix, str) or not prefix or meta.get("name") not in (None, ""):
        return document
    name = prefix[:_PREFIX_LIMIT] + content_hash(document)[:_SUFFIX_LENGTH]
    return {**document, "metadata": {**meta, "name": name}}


def _is_list(document: Manifest) -> bool:
    """Return whether a document is taken apart; no cluster serves ``v1 List``, so without items it is empty."""
    kind = str(document["kind"])
    # Kinds such as IPAllowList are objects, if they have no items.
    return kind.endswith("List") and ("items" in document or (kind == "List" and document.get("apiVersion") == "v1"))


def _fault(document: Any) -> tuple[str, str, Sequence[str | int]] | None:
    """Return what is wrong with an object, what to do, and the path to it."""
    if not isinstance(document, dict):
        return "a document must be a Kubernetes object", "write a mapping with apiVersion, kind and metadata", ()
    kind = document.get("kind")
    if not kind or not isinstance(kind, str):
        return "the object has no kind", "add a kind", ()
    if not _is_list(document):
        meta = document.get("metadata")
        if not isinstance(meta, dict) or meta.get("name") in (None, "") or isinstance(meta["name"], dict | list):
            hint = "add a name; metadata.generateName is for hooks in plain manifests only"
            return f"the {kind} has no metadata.name", hint, ("metadata",)
    return None
