"""A definition to make others from."""

from __future__ import annotations

from typing import Any


def definition(schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    """Return a definition of widgets with one version."""
    root = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
            ],
        },
    }


def spec_schema(**properties: Any) -> dict[str, Any]:
    """Return a root schema with these members of spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def widget(**members: Any) -> dict[str, Any]:
    """Return a widget with these members beside its metadata."""
    metadata = {"name": "w", "namespace": "scene"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **members}
