"""TransformerConfig: the fields that each transformer changes, built in and added by configuration files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from gitsync.render.resources.field_spec import FieldSpec, NameReference, gvk_order, merge_specs
from gitsync.render.resources.resource import Gvk


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
    found: dict[str, Any] = {}
    for member, attribute in MEMBERS.items():
        rows = document.get(member) or ()
        if attribute == "name_reference":
            references = (NameReference(spec_from(row).gvk, _specs(row.get("fieldSpecs"))) for row in rows)
            found[attribute] = _merge_references((), references)
        else:
            found[attribute] = _sorted_specs(_specs(rows))
    return TransformerConfig(**found)


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
