"""Validation of Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.containers import PROTOCOLS
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    immutable,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    too_many,
)
from gitsync.sandbox.validation.metadata import validate_labels
from gitsync.sandbox.validation.names import dns_label, dns_subdomain, ip_address, label_value, qualified_name

_TYPES = ("FQDN", "IPv4", "IPv6")
_FAMILIES = {"IPv4": 4, "IPv6": 6}
# pkg/apis/discovery/validation: maxAddresses.
_MAX_ADDRESSES = 100
# maxZoneHints and maxNodeHints.
_MAX_HINTS = 8


def validate_endpoints(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check Endpoints (pkg/apis/core/validation: ValidateEndpoints); unchanged subsets are valid."""
    # Endpoints stored under looser rules stay writable.
    if old is not None and new.get("subsets") == old.get("subsets"):
        return []
    causes = []
    for index, subset in enumerate(new.get("subsets", ())):
        field = f"subsets[{index}]"
        members = ("addresses", "notReadyAddresses")
        if not any(subset.get(member) for member in members):
            causes.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
        for member in members:
            for number, address in enumerate(subset.get(member, ())):
                causes += _address(address, f"{field}.{member}[{number}]")
        causes += _subset_ports(subset.get("ports", ()), f"{field}.ports")
    return causes


def _address(address: Mapping[str, Any], field: str) -> list[StatusCause]:
    ip = address.get("ip", "")
    causes = malformed(f"{field}.ip", ip, ip_address)
    causes += _host(address, field) if address.get("hostname") else _node(address, field)
    return causes + _reachable(ip, f"{field}.ip")


def _host(address: Mapping[str, Any], field: str) -> list[StatusCause]:
    return malformed(f"{field}.hostname", address["hostname"], dns_label) + _node(address, field)


def _node(address: Mapping[str, Any], field: str) -> list[StatusCause]:
    node = address.get("nodeName")
    return [] if node is None else malformed(f"{field}.nodeName", node, dns_subdomain)


def _reachable(text: str, field: str) -> list[StatusCause]:
    """Check that an address is one of an endpoint (pkg/apis/core/validation: ValidateEndpointIP)."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return [invalid(field, text, "must be a valid IP address")]
    # Endpoints must not let a tenant reach what listens on the node itself.
    if ip.is_unspecified:
        return [invalid(field, text, f"may not be unspecified ({text})")]
    if ip.is_loopback and not _is_of_running_pod(ip):
        return [invalid(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if ip.is_link_local:
        return [invalid(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    if ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16"):
        return [invalid(field, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    return []


def _is_of_running_pod(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether Pods that run as processes have such addresses: a deviation, since a real server refuses all loopback."""
    # 127.0.x.x stays refused: the machine's own services listen there.
    return ip.version == 4 and ip not in ipaddress.ip_network("127.0.0.0/16")


def _subset_ports(ports: Any, field: str) -> list[StatusCause]:
    causes = []
    for index, port in enumerate(ports):
        path = f"{field}[{index}]"
        name = port.get("name", "")
        if name:
            causes += malformed(f"{path}.name", name, dns_label)
        elif len(ports) > 1:
            causes.append(required(f"{path}.name"))
        causes += between(f"{path}.port", port.get("port", 0), 1, 65535)
        causes += _protocol(port, path)
    return causes


def _protocol(port: Mapping[str, Any], field: str) -> list[StatusCause]:
    protocol = port.get("protocol", "")
    application = port.get("appProtocol")
    causes = [] if protocol in PROTOCOLS else [not_supported(f"{field}.protocol", protocol, PROTOCOLS)]
    return causes + (malformed(f"{field}.appProtocol", application, qualified_name) if application is not None else [])


def validate_endpoint_slice(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an EndpointSlice (pkg/apis/discovery/validation: ValidateEndpointSlice); unchanged endpoints are valid."""
    kind = new.get("addressType", "")
    causes = one_of("addressType", kind, _TYPES) if kind else [required("addressType")]
    causes += _slice_ports(new.get("ports") or ())
    if old is None or new.get("endpoints") != old.get("endpoints"):
        for index, endpoint in enumerate(new.get("endpoints") or ()):
            causes += _endpoint(endpoint, f"endpoints[{index}]", kind)
    return causes if old is None else causes + immutable("addressType", kind, old.get("addressType", ""))


def _slice_ports(ports: Iterable[Mapping[str, Any]]) -> list[StatusCause]:
    causes = list[StatusCause]()
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name", "")
        causes += malformed(f"ports[{index}].name", name, dns_label) if name else []
        causes += [duplicate(f"ports[{index}].name", name)] if name in names else []
        names.add(name)
        causes += _protocol(port, f"ports[{index}]")
    return causes


def _endpoint(endpoint: Mapping[str, Any], field: str, kind: str) -> list[StatusCause]:
    addresses = endpoint.get("addresses") or ()
    causes = [] if addresses else [required(f"{field}.addresses", "must contain at least 1 address")]
    if len(addresses) > _MAX_ADDRESSES:
        causes.append(too_many(f"{field}.addresses", len(addresses), _MAX_ADDRESSES))
    for number, address in enumerate(addresses):
        causes += _slice_address(address, f"{field}.addresses", number, kind)
    causes += _node(endpoint, field)
    causes += validate_labels(endpoint.get("deprecatedTopology"), f"{field}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        causes += malformed(f"{field}.hostname", endpoint["hostname"], dns_label)
    hints = endpoint.get("hints") or {}
    for member, check in (("forZones", label_value), ("forNodes", dns_subdomain)):
        names = [hint.get("name", "") for hint in hints.get(member) or ()]
        causes += _hints(names, f"{field}.hints.{member}", check)
    return causes


def _slice_address(address: str, field: str, number: int, kind: str) -> list[StatusCause]:
    path = f"{field}[{number}]"
    if kind == "FQDN":
        return malformed(path, address, dns_subdomain)
    # The unsupported type has a cause of its own.
    if kind not in _FAMILIES:
        return []
    causes = malformed(path, address, ip_address)
    if causes:
        return causes
    if ipaddress.ip_address(address).version != _FAMILIES[kind]:
        # At the list, unlike the malformed address.
        causes.append(invalid(field, address, f"must be an {kind} address"))
    return causes + _reachable(address, path)


def _hints(names: list[str], field: str, check: Any) -> list[StatusCause]:
    if len(names) > _MAX_HINTS:
        return [too_many(field, len(names), _MAX_HINTS)]
    causes = list[StatusCause]()
    for index, name in enumerate(names):
        causes += [duplicate(f"{field}[{index}].name", name)] if name in names[:index] else []
        causes += malformed(f"{field}[{index}].name", name, check)
    return causes
