"""Validation of ServiceCIDRs (pkg/apis/networking/validation: ValidateServiceCIDR and its update)."""

from __future__ import annotations

import ipaddress

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import immutable, invalid, required
from gitsync.sandbox.validation.names import cidr

_FIELD = "spec.cidrs"


def validate_service_cidr(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check the ranges of a ServiceCIDR, which may only get one of the other family."""
    ranges = new["spec"].get("cidrs") or []
    before = old["spec"].get("cidrs") or [] if old is not None else None
    if before is None:
        return _ranges(ranges)
    if len(before) == len(ranges):
        return [cause for at, one in enumerate(ranges) for cause in immutable(f"{_FIELD}[{at}]", one, before[at])]
    if (len(before), len(ranges)) == (1, 2):
        return immutable(f"{_FIELD}[0]", ranges[0], before[0]) + _ranges(ranges)
    return immutable(_FIELD, ranges, before)


def _ranges(ranges: list[str]) -> list[Cause]:
    if not ranges:
        return [required(_FIELD, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid(_FIELD, {"CIDRs": ranges}, "may only hold up to 2 values")]
    causes = [cause for at, value in enumerate(ranges) for cause in _range(f"{_FIELD}[{at}]", value)]
    families = [family(value) for value in ranges]
    if len(families) == 2 and families[0] == families[1] != 0:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        causes.append(invalid(_FIELD, ranges, text))
    return causes


def _range(field: str, value: str) -> list[Cause]:
    problems = cidr(value)
    if problems:
        return [invalid(field, value, text) for text in problems]
    network = str(ipaddress.ip_network(value, strict=False))
    return [] if network == value else [invalid(field, value, f'must be in canonical form ("{network}")')]


def family(value: str) -> int:
    """Return the IP version of a range, 0 for what is not a range."""
    return 0 if cidr(value) else ipaddress.ip_network(value, strict=False).version
