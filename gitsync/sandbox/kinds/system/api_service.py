"""Validation of APIServices (kube-aggregator/pkg/apis/apiregistration/validation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import invalid, malformed, required
from gitsync.sandbox.validation.names import dns_1035_label, dns_subdomain

_PRIORITIES = {"groupPriorityMinimum": 20_000, "versionPriority": 1_000}
_MAX_PORT = 65_535


def validate_api_service(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check an APIService, whose name says its version and group."""
    spec, name = new["spec"], metadata_of(new).get("name", "")
    group, version = spec.get("group", ""), spec.get("version", "")
    causes: list[Cause] = []
    if name and name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", text))
    causes += malformed("spec.group", group, dns_subdomain) if group else []
    causes += malformed("spec.version", version, dns_1035_label)
    for member, most in _PRIORITIES.items():
        value = spec.get(member, 0)
        if not 0 < value <= most:
            causes.append(invalid(f"spec.{member}", value, f"must be positive and less than {most}"))
    service = spec.get("service")
    return causes + (_local(spec) if service is None else _remote(spec, service))


def _local(spec: Mapping[str, Any]) -> list[Cause]:
    causes = []
    if spec.get("caBundle"):
        causes.append(invalid("spec.caBundle", spec["caBundle"], "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes


def _remote(spec: Mapping[str, Any], service: Mapping[str, Any]) -> list[Cause]:
    causes = [required(f"spec.service.{member}") for member in ("namespace", "name") if not service.get(member)]
    port = service.get("port", 0)
    if not 0 < port <= _MAX_PORT:
        text = f"port is not valid: must be between 1 and {_MAX_PORT}, inclusive"
        causes.append(invalid("spec.service.port", port, text))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        text = "may not be true if caBundle is present"
        causes.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return causes
