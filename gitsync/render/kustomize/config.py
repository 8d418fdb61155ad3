"""TransformerConfig: the fields that each transformer changes, built in and added by configuration files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.kustomize.kustomization import Kustomization
from gitsync.render.kustomize.loader import Loader
from gitsync.render.resources.field_spec import FieldSpec, NameReference, gvk_order, merge_specs
from gitsync.render.resources.resource import Gvk
from gitsync.render.yaml.reader import read_all


class TransformerConfig(NamedTuple):
    """The field specs of each transformer, ordered by kind as Kustomize orders them."""

    name_prefix: tuple[FieldSpec, ...] = ()
    name_suffix: tuple[FieldSpec, ...] = ()
    namespace: tuple[FieldSpec, ...] = ()
    common_labels: tuple[FieldSpec, ...] = ()
    labels: tuple[FieldSpec, ...] = ()
    template_labels: tuple[FieldSpec, ...] = ()
    common_annotations: tuple[FieldSpec, ...] = ()
    name_reference: tuple[NameReference, ...] = ()
    var_reference: tuple[FieldSpec, ...] = ()
    images: tuple[FieldSpec, ...] = ()
    replicas: tuple[FieldSpec, ...] = ()

    def merge(self, other: TransformerConfig) -> TransformerConfig:
        """Return this with what the other adds; refuse two that contradict each other."""
        # Nearly all kustomizations configure nothing, and bases share the defaults.
        if other is self or other == EMPTY:
            return self
        merged: dict[str, Any] = {
            member: _sorted_specs(merge_specs(getattr(self, member), getattr(other, member)))
            for member in self._fields
            if member != "name_reference"
        }
        references = _merge_references(self.name_reference, other.name_reference)
        return self._replace(**merged, name_reference=references)


EMPTY: Final = TransformerConfig()

MEMBERS: Final = {
    "namePrefix": "name_prefix",
    "nameSuffix": "name_suffix",
    "namespace": "namespace",
    "commonLabels": "common_labels",
    "labels": "labels",
    "templateLabels": "template_labels",
    "commonAnnotations": "common_annotations",
    "nameReference": "name_reference",
    "varReference": "var_reference",
    "images": "images",
    "replicas": "replicas",
}
"""The members of a configuration file."""


def spec_from(value: dict[str, Any]) -> FieldSpec:
    """Return the field spec that a mapping of a configuration describes."""
    gvk = Gvk(value.get("group") or "", value.get("version") or "", value.get("kind") or "")
    return FieldSpec(gvk, value.get("path") or "", bool(value.get("create")))


def config_from(document: dict[str, Any]) -> TransformerConfig:
    """Return what one configuration file adds; its shape was checked before."""
    members: dict[str, Any] = {}
    for member, attribute in MEMBERS.items():
        rows = document.get(member) or ()
        if attribute == "name_reference":
            references = (NameReference(spec_from(row).gvk, _specs(row.get("fieldSpecs"))) for row in rows)
            members[attribute] = _merge_references((), references)
        else:
            members[attribute] = _sorted_specs(_specs(rows))
    return TransformerConfig(**members)


def _specs(rows: Sequence[dict[str, Any]] | None) -> tuple[FieldSpec, ...]:
    return tuple(spec_from(row) for row in rows or ())


def _sorted_specs(specs: Iterable[FieldSpec]) -> tuple[FieldSpec, ...]:
    return tuple(sorted(specs, key=lambda spec: gvk_order(spec.gvk)))


def _merge_references(
    present: tuple[NameReference, ...], incoming: Iterable[NameReference]
) -> tuple[NameReference, ...]:
    merged = {reference.target: reference for reference in present}
    for target, referrers in incoming:
        known = merged[target].referrers if target in merged else ()
        merged[target] = NameReference(target, merge_specs(known, referrers))
    return tuple(sorted(merged.values(), key=lambda reference: gvk_order(reference.target)))


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
                for addition in _configs(gvk, definitions, properties, ()):
                    config = config.merge(addition)
    return config


def _definitions(text: bytes, path: str) -> dict[str, dict[str, Any]]:
    documents = read_all(text, path)
    definitions = documents[0] if documents else None
    if not isinstance(definitions, dict) or not all(
        isinstance(definition, dict) for definition in definitions.values()
    ):
        what = (
            "a CustomResourceDefinition"
            if isinstance(definitions, dict) and "kind" in definitions
            else "something else"
        )
        raise InvalidInput(
            f"crds takes a file of OpenAPI definitions, and this is {what}",
            location=path,
            hint="list the object under resources, or write a mapping of definitions with Schema and properties",
        )
    return definitions


def _properties(definition: Any) -> Mapping[str, Any]:
    schema = definition.get("Schema") or definition.get("schema") if isinstance(definition, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _configs(
    gvk: Gvk, definitions: Mapping[str, Any], properties: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[TransformerConfig]:
    # Definitions may refer to themselves.
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
