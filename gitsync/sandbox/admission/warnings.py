"""Warnings about valid but probably unintended fields, in the order of the API server."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.sandbox.admission.attributes import CREATE, UPDATE, AdmissionAttributes, pod_spec_of
from gitsync.sandbox.kinds.pods.resources import amount

_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage", "storage")


def pod_warnings(spec: Mapping[str, Any], field: str) -> Iterator[str]:
    """Yield the warnings of a pod spec at a path."""
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            yield f"{field}.topologySpreadConstraints[{index}].labelSelector: {_NO_SELECTOR}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from (f"{field}.volumes[{index}].{name}: {_VOLUMES[name]}" for name in _VOLUMES if name in volume)
    yield from _again(spec.get("hostAliases") or (), "ip", f"{field}.hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _again(secrets, "name", f"{field}.imagePullSecrets")
    empty = (index for index, secret in enumerate(secrets) if not secret.get("name"))
    yield from (f'{field}.imagePullSecrets[{index}].name: invalid empty name ""' for index in empty)
    yield from _containers(spec, field)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{field}.terminationGracePeriodSeconds: {text}"
    for member in ("podAffinity", "podAntiAffinity"):
        yield from _affinity((spec.get("affinity") or {}).get(member) or {}, f"{field}.affinity.{member}")


def fractions(resources: Mapping[str, Any], field: str) -> Iterator[str]:
    """Yield a warning for each amount of bytes that is not whole."""
    for member in ("limits", "requests"):
        for name, text in (resources.get(member) or {}).items():
            if name in _BYTES and amount(text).nanos % 10**9:
                path = f"{field}.{member}[{name}]"
                yield f'{path}: fractional byte value "{text}" is invalid, must be an integer'


def _again(items: Any, key: str, field: str) -> Iterator[str]:
    values = [item.get(key, "") for item in items]
    for index, value in enumerate(values):
        if value in values[:index]:
            yield f'{field}[{index}].{key}: duplicate {key} "{value}"'


def _containers(spec: Mapping[str, Any], field: str) -> Iterator[str]:
    containers = [
        (f"{field}.{member}[{index}]", container)
        for member in ("initContainers", "containers")
        for index, container in enumerate(spec.get(member) or ())
    ]
    for path, container in containers:
        yield from fractions(container.get("resources") or {}, f"{path}.resources")
        yield from _hidden(container.get("env") or (), f"{path}.env")
    ports = [
        (f"{path}.ports[{index}]", port)
        for path, container in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    for path, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            name = port.get("name", "")
            number = port.get("containerPort", 0)
            protocol = port.get("protocol", "")
            shown = f"Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{port['hostIP']}"
            yield f"{path}: hostIP set without hostPort: {{{shown}}}"
    yield from _equal_ports(ports)
    yield from _equal_names(ports)


def _hidden(variables: Any, field: str) -> Iterator[str]:
    names: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        value = variable.get("value", "")
        reference = f"$({name})"
        # PATH=$(PATH):/x extends the earlier variable instead of hiding it.
        extends = "valueFrom" not in variable and reference in value and value != reference
        if name in names and not extends:
            yield f'{field}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        names.add(name)


def _equal_ports(ports: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    for index, (path, port) in enumerate(ports):
        for other_path, other in ports[:index]:
            if all(port.get(key) == other.get(key) for key in ("containerPort", "protocol")):
                yield from (f"{path}: {kind} port definition with {other_path}" for kind in _collision(port, other))


def _collision(port: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = ((declared.get("hostPort", 0), declared.get("hostIP", "")) for declared in (port, other))
    if ours == theirs:
        yield "duplicate"
    elif not ours[0] or not theirs[0]:
        yield "overlapping"
    # An empty host IP means all addresses, so which container gets the traffic is open.
    elif ours[0] == theirs[0] and "" in (ours[1], theirs[1]):
        yield "dangerously ambiguous"


def _equal_names(ports: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    first: dict[str, str] = {}
    for path, port in ports:
        name = port.get("name", "")
        if name and first.setdefault(name, path) != path:
            yield (
                f'{path}: duplicate port name "{name}" with {first[name]}, services and probes that select ports by '
                f"name will use {first[name]}"
            )


def _affinity(affinity: Mapping[str, Any], field: str) -> Iterator[str]:
    member = "requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get(member) or ()):
        if term.get("labelSelector") is None:
            yield f"{field}.{member}[{index}].labelSelector: {_NO_SELECTOR}"
    member = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(affinity.get(member) or ()):
        if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
            yield f"{field}.{member}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def warn(attributes: AdmissionAttributes) -> None:
    """Add the warnings of the object to the request's."""
    obj = attributes.obj
    if obj is None or attributes.subresource or attributes.operation not in (CREATE, UPDATE):
        return
    if attributes.is_of("", "PersistentVolumeClaim"):
        attributes.warnings.extend(fractions(obj["spec"].get("resources") or {}, "spec.resources"))
    if attributes.is_of("", "Secret") and obj.get("type") == "kubernetes.io/tls":
        attributes.warnings.extend(_key_pair(obj.get("data") or {}))
    if attributes.is_of("", "Node"):
        attributes.warnings.extend(_node(obj["spec"]))
    if attributes.is_of("", "Service"):
        attributes.warnings.extend(_service(obj))
    if attributes.is_of("storage.k8s.io", "CSIDriver"):
        attributes.warnings.extend(_tokens(obj, attributes.old))
    template = pod_spec_of(obj, attributes)
    if template is not None:
        attributes.warnings.extend(pod_warnings(*template))


def _key_pair(data: Mapping[str, str]) -> Iterator[str]:
    """Yield what crypto/tls says of a certificate or a key without any PEM block."""
    for member, name in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(member) or ""):
            yield f"tls: failed to find any PEM data in {name} input"
            # One warning: crypto/tls stops at the first file.
            return


def _node(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings of a Node (pkg/registry/core/node/strategy.go: fieldIsDeprecatedWarnings)."""
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _service(service: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings of a Service (pkg/api/service/warnings.go: GetWarningsForService)."""
    spec = service["spec"]
    kind = spec.get("type", "")
    outside = spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if outside and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if outside and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and kind != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _tokens(driver: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the warning of new token requests (pkg/registry/storage/csidriver: WarningsOnCreate, WarningsOnUpdate)."""
    spec = driver.get("spec") or {}
    old_spec = (old or {}).get("spec") or {}
    requests = spec.get("tokenRequests")
    if requests and requests != old_spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        yield _TOKENS_IN_ATTRIBUTES
