"""Validation of container resources, and the quality of service class of a pod."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gitsync.kube.quantity import Quantity, parse
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import invalid, required
from gitsync.sandbox.validation.names import qualified_name

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_KNOWN = _STANDARD | {"pods", "services", "storage"}
_HUGE_PAGES = "hugepages-"


@functools.lru_cache(maxsize=4096)
def amount(text: str) -> Quantity:
    """Return a quantity that is known to be well-formed."""
    return parse(text)


def validate_container_resources(resources: Mapping[str, Any], field: str) -> list[Cause]:
    """Check requests and limits of a container."""
    causes: list[Cause] = []
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for name, text in limits.items():
        path = f"{field}.limits[{name}]"
        causes += container_resource_name(name, path)
        causes += non_negative(text, path)
    for name, text in requests.items():
        path = f"{field}.requests[{name}]"
        causes += container_resource_name(name, path)
        causes += non_negative(text, path)
        limit = limits.get(name)
        if limit is None:
            if not _may_overcommit(name):
                causes.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        elif not _may_overcommit(name) and amount(text) != amount(limit):
            causes.append(invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif amount(text) > amount(limit):
            text_of_limit = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid(f"{field}.requests", text, text_of_limit))
    return causes


def non_negative(text: str, field: str) -> list[Cause]:
    """Check that a quantity is not below zero."""
    if amount(text).nanos >= 0:
        return []
    return [invalid(field, text, "must be greater than or equal to 0")]


def _may_overcommit(name: str) -> bool:
    return not name.startswith(_HUGE_PAGES) and ("/" not in name or name.startswith("kubernetes.io/"))


def resource_name(name: str, field: str) -> list[Cause]:
    """Check the name of a resource of any object."""
    problems = qualified_name(name)
    if problems:
        return [invalid(field, name, text) for text in problems]
    if "/" in name or name in _KNOWN or name.startswith(_HUGE_PAGES):
        return []
    return [invalid(field, name, "must be a standard resource type or fully qualified")]


def container_resource_name(name: str, field: str) -> list[Cause]:
    """Check the name of a resource of containers."""
    causes = resource_name(name, field)
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        causes.append(invalid(field, name, "must be a standard resource for containers"))
    return causes


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Return Guaranteed, Burstable or BestEffort by the cpu and memory of the containers."""
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    asked = False
    guaranteed = True
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = _positive(requests.get(name)), _positive(limits.get(name))
            asked = asked or request is not None or limit is not None
            if limit is None or (request or limit) != limit:
                guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(text: str | None) -> Quantity | None:
    return amount(text) if text and amount(text).nanos > 0 else None
