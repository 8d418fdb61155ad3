"""Validation of Ingresses, IngressClasses and NetworkPolicies."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.containers import PROTOCOLS
from gitsync.sandbox.kinds.pods.probes import validate_port_or_name
from gitsync.sandbox.validation.causes import (
    between,
    domain_prefixed_path,
    forbidden,
    immutable,
    invalid,
    malformed,
    not_supported,
    one_of,
    required,
    too_long,
)
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import (
    cidr,
    dns_label,
    dns_subdomain,
    ip_address,
    path_segment,
    port_name,
    wildcard_subdomain,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
# Proxies normalise or decode these, so that a rule would match other requests than it names.
_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_POLICY_TYPES = ("Egress", "Ingress")
# pkg/apis/networking/validation: maxLenIngressClassController.
_CONTROLLER_LIMIT = 250


def validate_ingress(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an Ingress."""
    spec = new["spec"]
    causes = []
    if "defaultBackend" not in spec and not spec.get("rules"):
        causes.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if "defaultBackend" in spec:
        causes += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules", ())):
        causes += _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls", ())):
        for number, host in enumerate(tls.get("hosts", ())):
            # A certificate may be for an IP address, a rule may not.
            causes += _host(host, f"spec.tls[{index}].hosts[{number}]", in_tls=True)
        secret = tls.get("secretName", "")
        causes += malformed(f"spec.tls[{index}].secretName", secret, dns_subdomain) if secret else []
    name = spec.get("ingressClassName")
    if name is not None:
        causes += [invalid("spec.ingressClassName", name, text) for text in dns_subdomain(name)]
    return causes


def _host(host: str, field: str, *, in_tls: bool = False) -> list[StatusCause]:
    if not in_tls and not ip_address(host):
        return [invalid(field, host, "must be a DNS name, not an IP address")]
    # A wildcard may only be the whole first label.
    check = wildcard_subdomain if "*" in host else dns_subdomain
    return [invalid(field, host, text) for text in check(host)]


def _rule(rule: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = _host(rule["host"], f"{field}.host") if rule.get("host") else []
    if "http" not in rule:
        return causes
    paths = rule["http"].get("paths") or ()
    if not paths:
        causes.append(required(f"{field}.http.paths"))
    for index, path in enumerate(paths):
        causes += _path(path, f"{field}.http.paths[{index}]")
    return causes


def _path(path: Mapping[str, Any], field: str) -> list[StatusCause]:
    kind = path.get("pathType")
    text = path.get("path", "")
    # extensions/v1beta1 had no path types; v1 has no default for them on purpose.
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    causes = []
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            causes.append(invalid(f"{field}.path", text, "must be an absolute path"))
        if text:
            for part in _BAD_PARTS:
                if part in text:
                    causes.append(invalid(f"{field}.path", text, f"must not contain '{part}'"))
            for end in _BAD_ENDS:
                if text.endswith(end):
                    causes.append(invalid(f"{field}.path", text, f"cannot end with '{end}'"))
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            causes.append(invalid(f"{field}.path", text, "must be an absolute path"))
    else:
        causes.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    return causes + _backend(path.get("backend", {}), f"{field}.backend")


def _backend(backend: Mapping[str, Any], field: str) -> list[StatusCause]:
    service = backend.get("service")
    resource = backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, f"{field}.resource")
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    name = service.get("name", "")
    path = f"{field}.service.name"
    causes = [invalid(path, name, text) for text in dns_label(name)] if name else [required(path)]
    port = service.get("port", {})
    # The port may be named or numbered; the cause of a missing one is at the backend, not at the port.
    path = f"{field}.service.port"
    if port.get("name") and port.get("number"):
        causes.append(invalid(field, "", "cannot set both port name & port number"))
    elif port.get("name"):
        causes += [invalid(f"{path}.name", port["name"], text) for text in port_name(port["name"])]
    elif port.get("number"):
        causes += between(f"{path}.number", port["number"], 1, 65535)
    else:
        causes.append(required(field, "port name or number is required"))
    return causes


def validate_ingress_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an IngressClass (pkg/apis/networking/validation: ValidateIngressClass and its update)."""
    controller = new["spec"].get("controller", "")
    causes = []
    if old is not None:
        causes += immutable("spec.controller", controller, old["spec"].get("controller", ""))
    # Bytes, as len() of Go has it.
    if len(controller.encode()) > _CONTROLLER_LIMIT:
        causes.append(too_long("spec.controller", _CONTROLLER_LIMIT))
    causes += domain_prefixed_path("spec.controller", controller)
    parameters = new["spec"].get("parameters")
    if parameters is not None:
        causes += _parameters(parameters, "spec.parameters")
    return causes


def _parameters(parameters: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = _reference(parameters, field)
    scope = parameters.get("scope")
    namespace = parameters.get("namespace")
    causes += one_of(f"{field}.scope", scope, ("Cluster", "Namespace"))
    if scope == "Namespace" and not namespace:
        causes.append(required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'"))
    if scope == "Cluster" and namespace is not None:
        # An absent namespace is required here: an empty text is forbidden, too.
        text = "`parameters.scope` is set to 'Cluster'"
        causes.append(forbidden(f"{field}.namespace", text))
    return causes


def _reference(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check a reference (pkg/apis/networking/validation: validateIngressTypedLocalObjectReference)."""
    group = reference.get("apiGroup")
    causes = malformed(f"{field}.apiGroup", group, dns_subdomain) if group is not None else []
    for member in ("kind", "name"):
        path = f"{field}.{member}"
        value = reference.get(member, "")
        causes += malformed(path, value, path_segment) if value else [required(path)]
    return causes


def validate_network_policy(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a NetworkPolicy."""
    spec = new["spec"]
    causes = validate_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction, ())):
            field = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports", ())):
                causes += _policy_port(port, f"{field}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers, ())):
                causes += _peer(peer, f"{field}.{peers}[{number}]")
    types = spec.get("policyTypes", ())
    # There are only two types, so a third is a duplicate; nothing more is checked then.
    if len(types) > 2:
        return [*causes, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    for index, kind in enumerate(types):
        causes += one_of(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)
    return causes


def _policy_port(port: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = one_of(f"{field}.protocol", port.get("protocol"), PROTOCOLS)
    number = port.get("port")
    end = port.get("endPort")
    if number is not None:
        causes += validate_port_or_name(number, f"{field}.port")
        if isinstance(number, int) and end is not None:
            if end < number:
                # The server puts the port, not the end, into the cause.
                causes.append(invalid(f"{field}.endPort", number, "must be greater than or equal to `port`"))
            causes += between(f"{field}.endPort", end, 1, 65535)
        elif end is not None:
            text = "may not be specified when `port` is non-numeric"
            causes.append(invalid(f"{field}.endPort", end, text))
    elif end is not None:
        causes.append(invalid(f"{field}.endPort", end, "may not be specified when `port` is not specified"))
    return causes


def _peer(peer: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    # An empty peer would be ambiguous: all pods, or none.
    if not peer:
        causes.append(required(field, "must specify a peer"))
    for member in ("podSelector", "namespaceSelector"):
        causes += validate_selector(peer.get(member), f"{field}.{member}")
    block = peer.get("ipBlock")
    if block is None:
        return causes
    if "podSelector" in peer or "namespaceSelector" in peer:
        causes.append(forbidden(field, "may not specify both ipBlock and another peer"))
    return causes + _block(block, f"{field}.ipBlock")


def _block(block: Mapping[str, Any], field: str) -> list[StatusCause]:
    network = block.get("cidr", "")
    if not network:
        return [required(f"{field}.cidr")]
    problems = cidr(network)
    if problems:
        return [invalid(f"{field}.cidr", network, text) for text in problems]
    causes = []
    # Host bits may be set, 10.0.0.1/8 is accepted with a warning.
    outer = ipaddress.ip_network(network, strict=False)
    for index, exception in enumerate(block.get("except", ())):
        path = f"{field}.except[{index}]"
        problems = cidr(exception)
        causes += [invalid(path, exception, text) for text in problems]
        if not problems and not _inside(ipaddress.ip_network(exception, strict=False), outer):
            causes.append(invalid(path, exception, f'must be a strict subset of `cidr`: "{network}"'))
    return causes


def _inside(
    inner: ipaddress.IPv4Network | ipaddress.IPv6Network, outer: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> bool:
    # A strict subset: an exception as large as its block would leave nothing.
    if inner.version != outer.version or inner.prefixlen <= outer.prefixlen:
        return False
    return inner.network_address in outer
