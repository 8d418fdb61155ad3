"""The scale subresource: replicas of a workload, or of a custom resource that declares where it keeps them."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest, at

ScalePaths = tuple[str, str, str]
"""Dotted paths of the wanted replicas, the actual ones, and the selector."""

_PATHS: ScalePaths = ("spec.replicas", "status.replicas", "status.selector")


def declared_paths(version: Manifest) -> ScalePaths | None:
    """Return where a version of a definition keeps the scale, None where it has none."""
    scale = at(version, "subresources", "scale")
    if scale is None:
        return None
    members = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    wanted, actual, selector = (str(scale.get(member) or "").lstrip(".") for member in members)
    return wanted, actual, selector


def scale_of(obj: Manifest, paths: ScalePaths | None = None) -> Manifest:
    """
    Return the Scale of an object.

    ``paths`` are the dotted paths of the wanted replicas, the actual ones and the selector of a custom resource;
    built-in workloads keep them where they always are.
    """
    meta = obj["metadata"]
    members = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    wanted, actual, selector = paths or _PATHS
    spec: dict[str, Any] = {}
    # The real Scale has omitempty: zero replicas are left out.
    if replicas := at(obj, *wanted.split(".")):
        spec["replicas"] = replicas
    status: dict[str, Any] = {"replicas": at(obj, *actual.split(".")) or 0}
    text = at(obj, *selector.split("."), default="") if paths else selector_text(at(obj, "spec", "selector"))
    if text:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in members if key in meta},
        "spec": spec,
        "status": status,
    }


def with_replicas(obj: Manifest, replicas: int, path: str = "spec.replicas") -> Manifest:
    """Return a copy of the object with other wanted replicas."""
    scaled: Manifest = _set(obj, path.split("."), replicas)
    return scaled


def _set(value: Any, path: list[str], replicas: int) -> Any:
    if not path:
        return replicas
    members = value if isinstance(value, dict) else {}
    return {**members, path[0]: _set(members.get(path[0]), path[1:], replicas)}


def selector_text(selector: Manifest | None) -> str:
    """Return a label selector, or a plain map of labels, as a query parameter spells it."""
    if not selector:
        return ""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or []:
        key = expression["key"]
        values = ",".join(sorted(expression.get("values") or []))
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(terms)
