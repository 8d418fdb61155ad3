"""Validation of what a pod waits for: readiness gates, scheduling gates and resource claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, invalid, malformed, required
from gitsync.sandbox.validation.names import dns_label, dns_subdomain, qualified_name

_CLAIMS = ("resourceClaimName", "resourceClaimTemplateName")
_ONE_OF = "one of: `resourceClaimName`, `resourceClaimTemplateName`"


def validate_gates(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check gates and claims (pkg/apis/core/validation: validateReadinessGates, …SchedulingGates, …ResourceClaims)."""
    causes = list[Cause]()
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        causes += malformed(f"{field}.readinessGates[{index}].conditionType", gate["conditionType"], qualified_name)
    names = [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]
    for index, name in enumerate(names):
        path = f"{field}.schedulingGates[{index}]"
        causes += malformed(path, name, qualified_name)
        causes += [duplicate(path, name)] if name in names[:index] else []
    return causes + _claims(spec.get("resourceClaims") or (), f"{field}.resourceClaims")


def _claims(claims: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    causes = list[Cause]()
    names = [claim.get("name", "") for claim in claims]
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        causes += _claim_name(names[index], names[:index], f"{path}.name")
        given = [member for member in _CLAIMS if claim.get(member) is not None]
        if len(given) != 1:
            causes.append(invalid(path, claim, f"at most {_ONE_OF}" if given else f"must specify {_ONE_OF}"))
        causes += [cause for name in given for cause in malformed(f"{path}.{name}", claim[name], dns_subdomain)]
    return causes


def _claim_name(name: str, earlier: Iterable[str], field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    return [duplicate(field, name)] if name in earlier else malformed(field, name, dns_label)
