"""Validation of what containers say about resizing and about the resource claims of their pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, invalid, not_found, not_supported, required

_RESIZABLE = ("cpu", "memory")
_RESTARTS = ("NotRequired", "RestartContainer")


def validate_claims_and_resizing(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the members ``resources.claims`` and ``resizePolicy`` of all containers of a pod."""
    causes = list[Cause]()
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


def _resizing(policies: Sequence[Mapping[str, Any]], field: str, *, never: bool) -> list[Cause]:
    """Check resize policies (pkg/apis/core/validation: validateResizePolicy), all but duplicates at the list."""
    causes = list[Cause]()
    names = [policy.get("resourceName", "") for policy in policies]
    for index, (name, policy) in enumerate(zip(names, policies, strict=True)):
        restart = policy.get("restartPolicy", "")
        causes += [duplicate(f"{field}[{index}]", name)] if name in names[:index] else []
        for value, choices in ((name, _RESIZABLE), (restart, _RESTARTS)):
            if value not in choices:
                causes.append(not_supported(field, value, choices) if value else required(field))
        if never and restart != "NotRequired":
            causes.append(invalid(field, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return causes


def _claims(claims: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check that a container names claims of its pod once (pkg/apis/core/validation: validateResourceClaimNames)."""
    causes, seen = list[Cause](), list[tuple[str, str]]()
    known = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    for index, claim in enumerate(claims):
        path, key = f"{field}[{index}]", (claim.get("name", ""), claim.get("request", ""))
        if not key[0]:
            causes.append(required(path))
        elif key in seen or (key[0], "") in seen or (not key[1] and any(name == key[0] for name, _ in seen)):
            causes.append(duplicate(path, "/".join(filter(None, key))))
        seen.append(key)
        if key[0] and key[0] not in known:
            causes.append(not_found(path, key[0]))
    return causes
