"""One small schema that has every kind of type, and values of it."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from gitsync.merge.schema import REFERENCE, Schema, Schemas

_SCHEMAS: Final[dict[str, Any]] = {
    "root": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "number": {"type": "integer"},
            "flag": {"type": "boolean"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "x-kubernetes-map-type": "atomic",
            },
            "part": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "args": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "items": {
                "type": "array",
                "items": {"$ref": f"{REFERENCE}item"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "protocol"],
            },
            "amount": {"$ref": f"{REFERENCE}io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        },
    },
    "item": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "protocol": {"type": "string", "default": "TCP"},
            "value": {"type": "integer"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
}

ROOT: Final[Schema] = Schemas(_SCHEMAS).named("root")

NAMES: Final = st.sampled_from(["a", "b", "c"])
LABELS: Final = st.dictionaries(NAMES, st.sampled_from(["x", "y"]), max_size=3)
ITEMS: Final = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "value": st.integers(0, 2), "labels": LABELS},
    ),
    max_size=4,
    unique_by=lambda item: (item["name"], item.get("protocol", "TCP")),
)
VALUES: Final = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["x", "y"]),
        "number": st.integers(0, 2),
        "flag": st.booleans(),
        "labels": LABELS,
        "whole": st.dictionaries(st.sampled_from(["a", "b"]), st.just("x")),
        "part": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"])),
        "args": st.lists(NAMES, max_size=2),
        "set": st.lists(NAMES, max_size=3, unique=True),
        "items": ITEMS,
        "any": st.recursive(st.integers(0, 1), lambda below: st.dictionaries(NAMES, below, max_size=2), max_leaves=3),
    },
)
