"""How the spec of a claim changed, as the server shows it: a diff of its internal type."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

Spec = Mapping[str, Any]


def diff_of(old: Spec, new: Spec) -> str:
    """Return the hunks of a unified diff, each line ended."""
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])


def _lines(spec: Spec) -> list[str]:
    resources = spec.get("resources") or {}
    shown = {
        "AccessModes": spec.get("accessModes"),
        "Selector": spec.get("selector"),
        "Resources": {
            "Limits": _sorted(resources.get("limits")),
            "Requests": _sorted(resources.get("requests")),
        },
        "VolumeName": spec.get("volumeName", ""),
        "StorageClassName": spec.get("storageClassName"),
        "VolumeMode": spec.get("volumeMode"),
        "DataSource": _source(spec.get("dataSource")),
        "DataSourceRef": _source(spec.get("dataSourceRef"), "namespace"),
        "VolumeAttributesClassName": spec.get("volumeAttributesClassName"),
    }
    return json.dumps(shown, indent=1, ensure_ascii=False).splitlines()


def _sorted(amounts: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(sorted(amounts.items())) if amounts else None


def _source(source: Mapping[str, Any] | None, *more: str) -> dict[str, Any] | None:
    if source is None:
        return None
    shown = {"APIGroup": source.get("apiGroup"), "Kind": source.get("kind", ""), "Name": source.get("name", "")}
    return shown | {name.title(): source.get(name) for name in more}
