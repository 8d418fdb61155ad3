"""Validation of container resources, their claims and resizing, and the quality of service class of a pod."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.kube.quantity import Quantity, parse
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import duplicate, invalid, not_found, not_supported, required
from gitsync.sandbox.validation.names import qualified_name

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_KNOWN = _STANDARD | {"pods", "services", "storage"}
_HUGE_PAGES = "hugepages-"


# The same few quantities appear in nearly all pods, and a quota adds them up on each write.
@functools.lru_cache(maxsize=4096)
def amount(text: str) -> Quantity:
    """Return a quantity that is known to be well-formed."""
    return parse(text)


def validate_container_resources(resources: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check requests and limits of a container."""
    causes: list[StatusCause] = []
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
        # A request alone is fine for cpu and memory.
        if limit is None:
            if not _may_overcommit(name):
                causes.append(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        elif not _may_overcommit(name) and amount(text) != amount(limit):
            causes.append(invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif amount(text) > amount(limit):
            text_of_limit = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid(f"{field}.requests", text, text_of_limit))
    return causes


def non_negative(text: str, field: str) -> list[StatusCause]:
    """Check that a quantity is not below zero."""
    if amount(text).nanos >= 0:
        return []
    return [invalid(field, text, "must be greater than or equal to 0")]


def _may_overcommit(name: str) -> bool:
    # pkg/apis/core/helper: IsOvercommitAllowed; extended resources and huge pages are reserved whole.
    return not name.startswith(_HUGE_PAGES) and ("/" not in name or name.startswith("kubernetes.io/"))


def resource_name(name: str, field: str) -> list[StatusCause]:
    """Check the name of a resource of any object."""
    problems = qualified_name(name)
    if problems:
        return [invalid(field, name, text) for text in problems]
    if "/" in name or name in _KNOWN or name.startswith(_HUGE_PAGES):
        return []
    return [invalid(field, name, "must be a standard resource type or fully qualified")]


def container_resource_name(name: str, field: str) -> list[StatusCause]:
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
        requests = resources.get("requests") or {}
        limits = resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request = _positive(requests.get(name))
            limit = _positive(limits.get(name))
            asked = asked or request is not None or limit is not None
            # An absent request equals the limit, which is its default.
            if limit is None or (request or limit) != limit:
                guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(text: str | None) -> Quantity | None:
    return amount(text) if text and amount(text).nanos > 0 else None


_RESIZABLE = ("cpu", "memory")
_RESTARTS = ("NotRequired", "RestartContainer")


def validate_claims_and_resizing(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the members ``resources.claims`` and ``resizePolicy`` of all containers of a pod."""
    causes = list[StatusCause]()
    for member in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(member) or ()):
            path = f"{field}.{member}[{index}]"
            if "resizePolicy" in container:
                never = spec.get("restartPolicy") == "Never"
                causes += _resizing(container["resizePolicy"], f"{path}.resizePolicy", never=never)
            claims = (container.get("resources") or {}).get("claims")
            if claims:
                causes += _claims(claims, spec, f"{path}.resources.claims")
    return causes


def _resizing(policies: Sequence[Mapping[str, Any]], field: str, *, never: bool) -> list[StatusCause]:
    """Check resize policies (pkg/apis/core/validation: validateResizePolicy), all but duplicates at the list."""
    causes = list[StatusCause]()
    names = [policy.get("resourceName", "") for policy in policies]
    for index, (name, policy) in enumerate(zip(names, policies, strict=True)):
        restart = policy.get("restartPolicy", "")
        causes += [duplicate(f"{field}[{index}]", name)] if name in names[:index] else []
        for value, choices in ((name, _RESIZABLE), (restart, _RESTARTS)):
            # Causes of values are at the list, only duplicates at an item: the server has no index there.
            if value not in choices:
                causes.append(not_supported(field, value, choices) if value else required(field))
        # A container that never restarts cannot be resized by a restart.
        if never and restart != "NotRequired":
            causes.append(invalid(field, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return causes


def _claims(claims: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check that a container names claims of its pod once (pkg/apis/core/validation: validateResourceClaimNames)."""
    causes = list[StatusCause]()
    named_requests = list[tuple[str, str]]()
    known = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        key = (claim.get("name", ""), claim.get("request", ""))
        if not key[0]:
            causes.append(required(path))
        # A claim named without a request means all of its requests.
        elif (
            key in named_requests
            or (key[0], "") in named_requests
            or (not key[1] and any(name == key[0] for name, _ in named_requests))
        ):
            causes.append(duplicate(path, "/".join(filter(None, key))))
        named_requests.append(key)
        if key[0] and key[0] not in known:
            causes.append(not_found(path, key[0]))
    return causes
