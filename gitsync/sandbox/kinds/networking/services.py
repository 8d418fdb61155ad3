"""Validation of Services, and of ServiceCIDRs, the ranges of their addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.containers import PROTOCOLS
from gitsync.sandbox.kinds.pods.probes import validate_port_or_name
from gitsync.sandbox.validation.causes import (
    between,
    duplicate,
    forbidden,
    immutable,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
)
from gitsync.sandbox.validation.metadata import validate_labels
from gitsync.sandbox.validation.names import cidr, dns_label, dns_subdomain, ip_address, qualified_name

Spec = Mapping[str, Any]

_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_HAS_CLUSTER_IP = ("ClusterIP", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
# pkg/apis/core: MaxClientIPServiceAffinitySeconds.
_DAY = 86400
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def validate_service(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a Service."""
    spec = new["spec"]
    related = _cluster_ips(spec)
    if related:  # the allocation of addresses refuses them before anything else is checked
        return related
    causes = [] if old is None else _service_update(spec, old["spec"])
    kind = spec.get("type", "")
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports", ())
    # A headless Service may only name pods in DNS.
    if not ports and not headless and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in ("NodePort", "LoadBalancer") and headless:
        text = f"may not be set to 'None' for {kind} services"
        causes.append(invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        causes += _external_name(spec)
    causes += _ports(ports)
    causes += validate_labels(spec.get("selector"), "spec.selector")
    causes += _affinity(spec)
    for index, ip in enumerate(spec.get("externalIPs", ())):
        causes += [invalid(f"spec.externalIPs[{index}]", ip, text) for text in ip_address(ip)]
    if not kind:
        causes.append(required("spec.type"))
    elif kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES))
    if kind == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                causes.append(forbidden(f"spec.ports[{index}].nodePort", text))
    causes += _duplicate_ports(ports)
    causes += _load_balancer(spec)
    return causes + _traffic(spec)


def _service_update(new: Spec, old: Spec) -> list[StatusCause]:
    causes = []
    if old.get("type") in _HAS_CLUSTER_IP and new.get("type") in _HAS_CLUSTER_IP:
        old_value = old.get("clusterIPs") or []
        after = new.get("clusterIPs") or []
        # A second address may come and go with the family policy.
        if old_value and old_value[:1] != after[:1]:
            causes.append(invalid("spec.clusterIPs[0]", after, "may not change once set"))
    if old.get("type") == new.get("type") == "LoadBalancer":
        old_value = old.get("loadBalancerClass")
        after = new.get("loadBalancerClass")
        if old_value != after:
            causes.append(invalid("spec.loadBalancerClass", after, "may not change once set"))
    elif new.get("type") != "LoadBalancer":  # the update's own check repeats what holds without it
        causes += _only_load_balancer(new, ("loadBalancerClass",))
    return causes


def _external_name(spec: Spec) -> list[StatusCause]:
    causes = []
    for member in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(member):
            causes.append(forbidden(f"spec.{member}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "")
    if not name:
        causes.append(required("spec.externalName"))
    else:
        causes += [invalid("spec.externalName", name, text) for text in dns_subdomain(name.removesuffix("."))]
    return causes


def _ports(ports: Any) -> list[StatusCause]:
    causes = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name:
            if len(ports) > 1:
                causes.append(required(f"{field}.name"))
        else:
            problems = dns_label(name)
            causes += [invalid(f"{field}.name", name, text) for text in problems]
            if name in names:
                causes.append(duplicate(f"{field}.name", name))
            names.add(name)
        causes += between(f"{field}.port", port.get("port", 0), 1, 65535)
        protocol = port.get("protocol", "")
        if not protocol:
            causes.append(required(f"{field}.protocol"))
        elif protocol not in PROTOCOLS:
            causes.append(not_supported(f"{field}.protocol", protocol, PROTOCOLS))
        causes += validate_port_or_name(port.get("targetPort", 0), f"{field}.targetPort")
        application = port.get("appProtocol")
        if application is not None:
            causes += [invalid(f"{field}.appProtocol", application, text) for text in qualified_name(application)]
    return causes


def _duplicate_ports(ports: Any) -> list[StatusCause]:
    causes = []
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("nodePort", 0))
        if key[1] and key in node_ports:
            causes.append(duplicate(f"spec.ports[{index}].nodePort", key[1]))
        node_ports.add(key)
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in numbers:
            # The port as Go prints it, reduced to what makes it a duplicate.
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.append(duplicate(f"spec.ports[{index}]", shown))
        numbers.add(key)
    return causes


def _affinity(spec: Spec) -> list[StatusCause]:
    affinity = spec.get("sessionAffinity", "")
    if not affinity:
        return [required("spec.sessionAffinity")]
    causes = one_of("spec.sessionAffinity", affinity, _AFFINITIES)
    if affinity == "ClientIP":
        field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        seconds = spec.get("sessionAffinityConfig", {}).get("clientIP", {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= _DAY:
            causes.append(invalid(field, seconds, f"must be greater than 0 and less than {_DAY}"))
    elif "sessionAffinityConfig" in spec:
        text = f"must not be set when session affinity is {affinity}"
        causes.append(forbidden("spec.sessionAffinityConfig", text))
    return causes


def _cluster_ips(spec: Spec) -> list[StatusCause]:
    """Check families and addresses (pkg/apis/core/validation: ValidateServiceClusterIPsRelatedFields)."""
    if spec.get("type") == "ExternalName":
        return []
    first = spec.get("clusterIP", "")
    addresses = spec.get("clusterIPs", ())
    families = spec.get("ipFamilies", ())
    causes = [] if not first or addresses else [required("spec.clusterIPs")]
    # The old member for one address mirrors the new list.
    if first and addresses and addresses[0] != first:
        causes.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    if addresses and not first:
        causes.append(invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    for index, family in enumerate(families):
        causes += one_of(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
        causes += [duplicate(f"spec.ipFamilies[{index}]", family)] if family in families[:index] else []
    causes += one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    return causes + _addresses(addresses, families)


def _addresses(addresses: Sequence[str], families: Sequence[str]) -> list[StatusCause]:
    field = "spec.clusterIPs"
    wrong = list[StatusCause]()
    if len(addresses) > 1 and addresses[0] == "None":
        wrong.append(invalid(field, addresses, "'None' must be the first and only value"))
    for index, ip in enumerate(addresses):
        wrong += malformed(f"{field}[{index}]", ip, ip_address) if index or ip != "None" else []
    causes = [invalid(field, addresses, "may only hold up to 2 values")] if len(addresses) > 2 else []
    if wrong:
        return wrong + causes
    versions = [ipaddress.ip_address(ip).version for ip in addresses if ip != "None"]
    if len(set(versions)) < len(versions):
        causes.append(invalid(field, addresses, "may specify no more than one IP for each IP family"))
    for index, (version, family) in enumerate(zip(versions, families, strict=False)):
        if family in ("IPv4", "IPv6") and family != f"IPv{version}":
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            causes.append(invalid(f"{field}[{index}]", addresses[index], text))
    return causes


def _load_balancer(spec: Spec) -> list[StatusCause]:
    causes = list[StatusCause]()
    # The path of the causes really begins with a capital letter.
    ranges = spec.get("loadBalancerSourceRanges", ())
    field = "spec.LoadBalancerSourceRanges"
    if ranges and spec.get("type") != "LoadBalancer":
        causes.append(forbidden(field, _ONLY_LOAD_BALANCER))
    for index, network in enumerate(ranges):
        # Blanks around a range have always been accepted.
        causes += malformed(f"{field}[{index}]", network.strip(), cidr)
    if spec.get("type") != "LoadBalancer":
        return causes + _only_load_balancer(spec, ("allocateLoadBalancerNodePorts", "loadBalancerClass"))
    # Defaulted, so only a null reaches this.
    if "allocateLoadBalancerNodePorts" not in spec:
        causes.append(required("spec.allocateLoadBalancerNodePorts"))
    return causes


def _only_load_balancer(spec: Spec, members: tuple[str, ...]) -> list[StatusCause]:
    return [forbidden(f"spec.{name}", _ONLY_LOAD_BALANCER) for name in members if spec.get(name) is not None]


def _traffic(spec: Spec) -> list[StatusCause]:
    causes = []
    policy = spec.get("externalTrafficPolicy", "")
    outside = spec.get("type") in ("LoadBalancer", "NodePort") or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )
    if outside:
        if not policy:
            causes.append(required("spec.externalTrafficPolicy", "for externally-accessible services"))
        else:
            causes += one_of("spec.externalTrafficPolicy", policy, _POLICIES)
    elif policy:
        text = "may only be set for externally-accessible services"
        causes.append(invalid("spec.externalTrafficPolicy", policy, text))
    health = spec.get("healthCheckNodePort", 0)
    if health and not (spec.get("type") == "LoadBalancer" and policy == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", health, text))
    internal = spec.get("internalTrafficPolicy")
    if internal is None and spec.get("type") in _HAS_CLUSTER_IP:
        causes.append(required("spec.internalTrafficPolicy"))
    causes += one_of("spec.internalTrafficPolicy", internal, _POLICIES)
    return causes + one_of("spec.trafficDistribution", spec.get("trafficDistribution"), _DISTRIBUTIONS)


_FIELD = "spec.cidrs"


def validate_service_cidr(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check the ranges of a ServiceCIDR, which may only get one of the other family."""
    ranges = new["spec"].get("cidrs") or []
    stored_ranges = old["spec"].get("cidrs") or [] if old is not None else None
    if stored_ranges is None:
        return _ranges(ranges)
    if len(stored_ranges) == len(ranges):
        return [
            cause for at, value in enumerate(ranges) for cause in immutable(f"{_FIELD}[{at}]", value, stored_ranges[at])
        ]
    # A cluster may become dual-stack, not go back.
    if (len(stored_ranges), len(ranges)) == (1, 2):
        return immutable(f"{_FIELD}[0]", ranges[0], stored_ranges[0]) + _ranges(ranges)
    return immutable(_FIELD, ranges, stored_ranges)


def _ranges(ranges: list[str]) -> list[StatusCause]:
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


def _range(field: str, value: str) -> list[StatusCause]:
    problems = cidr(value)
    if problems:
        return [invalid(field, value, text) for text in problems]
    network = str(ipaddress.ip_network(value, strict=False))
    # New kinds refuse host bits (KEP-4858), old ones accept them.
    return [] if network == value else [invalid(field, value, f'must be in canonical form ("{network}")')]


def family(value: str) -> int:
    """Return the IP version of a range, 0 for what is not a range."""
    # Malformed ranges are reported by their own check.
    return 0 if cidr(value) else ipaddress.ip_network(value, strict=False).version
