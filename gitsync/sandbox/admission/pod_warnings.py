"""Warnings about pod specs (pkg/api/pod/warnings.go: warningsForPodSpecAndMeta), in the order of the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
            name, number, protocol = port.get("name", ""), port.get("containerPort", 0), port.get("protocol", "")
            shown = f"Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{port['hostIP']}"
            yield f"{path}: hostIP set without hostPort: {{{shown}}}"
    yield from _equal_ports(ports)
    yield from _equal_names(ports)


def _hidden(variables: Any, field: str) -> Iterator[str]:
    names: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        value, reference = variable.get("value", ""), f"$({name})"
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
    ours, theirs = ((one.get("hostPort", 0), one.get("hostIP", "")) for one in (port, other))
    if ours == theirs:
        yield "duplicate"
    elif not ours[0] or not theirs[0]:
        yield "overlapping"
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
