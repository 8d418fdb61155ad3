"""The pod spec of a request's object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import Attributes
from gitsync.sandbox.kinds.pods.disabled import POD_SPECS


def pod_spec_of(obj: Manifest, attributes: Attributes) -> tuple[Mapping[str, Any], str] | None:
    """Return the pod spec of an object and its path, None for a kind without pods."""
    path = POD_SPECS.get((attributes.resource.group, attributes.resource.kind))
    if path is None:
        return None
    value: Any = obj
    for part in path:
        value = value.get(part) or {}
    return value, ".".join(path)
