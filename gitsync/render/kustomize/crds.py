"""CRDs: read from a ``crds`` file which of a custom kind's fields hold names, labels or annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.render.kustomize.config import EMPTY, TransformerConfig
from gitsync.render.kustomize.kustomization import Kustomization
from gitsync.render.kustomize.loader import Loader
from gitsync.render.resources.field_spec import FieldSpec, NameReference
from gitsync.render.resources.resource import Gvk
from gitsync.render.yaml.reader import read_all

_ANNOTATION: Final = "x-kubernetes-annotation"
_LABEL_SELECTOR: Final = "x-kubernetes-label-selector"
_IDENTITY: Final = "x-kubernetes-identity"
_REF_VERSION: Final = "x-kubernetes-object-ref-api-version"
_REF_KIND: Final = "x-kubernetes-object-ref-kind"
_REF_NAME: Final = "x-kubernetes-object-ref-name-key"
_MAX_DEPTH: Final = 50


def config_from_crds(loader: Loader, kustomization: Kustomization) -> TransformerConfig:
    """Return the configuration that the files of the ``crds`` field add."""
    config = EMPTY
    for index, path in enumerate(kustomization.get("crds")):
        definitions = _definitions(loader.read(path, kustomization.where("crds", index)), path)
        for name, definition in sorted(definitions.items()):
            properties = _properties(definition)
            if {"kind", "apiVersion", "metadata"} <= properties.keys():
                gvk = Gvk("", "", name.rpartition(".")[2])
                for found in _configs(gvk, definitions, properties, ()):
                    config = config.merge(found)
    return config


def _definitions(text: bytes, path: str) -> dict[str, dict[str, Any]]:
    documents = read_all(text, path)
    found = documents[0] if documents else None
    if not isinstance(found, dict) or not all(isinstance(definition, dict) for definition in found.values()):
        what = "a CustomResourceDefinition" if isinstance(found, dict) and "kind" in found else "something else"
        raise InvalidInput(
            f"crds takes a file of OpenAPI definitions, and this is {what}",
            location=path,
            hint="list the object under resources, or write a mapping of definitions with Schema and properties",
        )
    return found


def _properties(definition: Any) -> Mapping[str, Any]:
    schema = definition.get("Schema") or definition.get("schema") if isinstance(definition, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _configs(
    gvk: Gvk, definitions: Mapping[str, Any], properties: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[TransformerConfig]:
    if len(path) > _MAX_DEPTH:
        return
    for name, schema in properties.items():
        if not isinstance(schema, dict):
            continue
        here = (*path, name)
        spec = (FieldSpec(gvk, "/".join(here)),)
        if _ANNOTATION in schema:
            yield TransformerConfig(common_annotations=spec)
        if _LABEL_SELECTOR in schema:
            yield TransformerConfig(common_labels=spec)
        if _IDENTITY in schema:
            yield TransformerConfig(name_prefix=spec)
        if _REF_VERSION in schema and _REF_KIND in schema:
            key = str(schema.get(_REF_NAME) or "name")
            target = Gvk("", str(schema[_REF_VERSION]), str(schema[_REF_KIND]))
            reference = NameReference(target, (FieldSpec(gvk, "/".join((*here, key))),))
            yield TransformerConfig(name_reference=(reference,))
        reference_name = schema.get("$ref")
        if isinstance(reference_name, str):
            yield from _configs(gvk, definitions, _properties(definitions.get(reference_name)), here)
