"""LimitRanger: default resources of pods, and limits on what they and claims may ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.kube.quantity import Quantity
from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.sandbox.admission.attributes import AdmissionAttributes
from gitsync.sandbox.kinds.pods.resources import amount
from gitsync.sandbox.registry.contract import ControllerClient

_ANNOTATION = "kubernetes.io/limit-ranger"
_NONE = Quantity(0)

Amounts = Mapping[str, str]
Item = Mapping[str, Any]


def _items(api: ControllerClient, namespace: str) -> Iterator[Item]:
    for limits in api.list("", "LimitRange", namespace):
        yield from limits["spec"].get("limits") or ()


def with_defaults(api: ControllerClient, pod: Manifest, attributes: AdmissionAttributes) -> Manifest:
    """Return the pod with the default requests and limits of its namespace, and a note of them."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in _items(api, attributes.namespace):
        if item["type"] == "Container":
            requests.update(item.get("defaultRequest", {}))
            limits.update(item.get("default", {}))
    if not requests and not limits:
        return pod
    notes: list[str] = []
    spec = dict(pod["spec"])
    for group, what in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(group):
            spec[group] = [_filled(container, requests, limits, what, notes) for container in spec[group]]
    if not notes:
        return pod
    annotations = {**annotations_of(pod), _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec}


def _filled(
    container: dict[str, Any], requests: Amounts, limits: Amounts, what: str, notes: list[str]
) -> dict[str, Any]:
    resources = dict(container.get("resources") or {})
    for member, defaults in (("requests", requests), ("limits", limits)):
        # Sorted for the note, which the server writes from a sorted list as well.
        missing = sorted(name for name in defaults if name not in resources.get(member, {}))
        if missing:
            added = {name: defaults[name] for name in missing}
            resources[member] = {**resources.get(member, {}), **added}
            notes.append(f"{', '.join(missing)} {member[:-1]} for {what} {container['name']}")
    return {**container, "resources": resources}


def check(api: ControllerClient, obj: Manifest, attributes: AdmissionAttributes) -> None:
    """Refuse a pod or claim outside the limits of its namespace."""
    problems: list[str] = []
    if attributes.is_new("", "Pod"):
        for item in _items(api, attributes.namespace):
            problems += _pod_problems(item, obj["spec"])
    elif attributes.is_of("", "PersistentVolumeClaim") and not attributes.subresource:
        wanted = obj["spec"].get("resources", {}).get("requests", {})
        for item in _items(api, attributes.namespace):
            if item["type"] == "PersistentVolumeClaim":
                problems += _outside(item, wanted, {}, claim=True)
    if problems:
        raise attributes.forbidden(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _pod_problems(item: Item, spec: Mapping[str, Any]) -> Iterator[str]:
    containers = [c.get("resources") or {} for c in (*(spec.get("containers") or ()), *spec.get("initContainers", ()))]
    if item["type"] == "Container":
        for resources in containers:
            yield from _outside(item, resources.get("requests", {}), resources.get("limits", {}))
    elif item["type"] == "Pod":
        # A limit of pods adds up the containers that run together; init containers are left out.
        count = len(spec.get("containers") or ())
        requests = _total([resources.get("requests", {}) for resources in containers[:count]])
        limits = _total([resources.get("limits", {}) for resources in containers[:count]])
        yield from _outside(item, requests, limits)


def _total(amounts: list[Amounts]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for amounts_of_one in amounts:
        for name, text in amounts_of_one.items():
            added = amount(text)
            total[name] = Quantity(total.get(name, _NONE).nanos + added.nanos, added.form)
    return {name: str(quantity) for name, quantity in total.items()}


def _outside(item: Item, requests: Amounts, limits: Amounts, *, claim: bool = False) -> list[str]:
    """Return what is outside the least, the most, and the ratio of limit to request."""
    kind = item["type"]
    problems = []
    for name, least in item.get("min", {}).items():
        request = requests.get(name)
        start = f"minimum {name} usage per {kind} is {least}, but "
        if request is None:
            problems.append(f"{start}no request is specified")
        elif amount(request) < amount(least):
            problems.append(f"{start}request is {request}")
        elif name in limits and amount(limits[name]) < amount(least):
            problems.append(f"{start}limit is {limits[name]}")
    for name, most in item.get("max", {}).items():
        limit = limits.get(name)
        request = requests.get(name)
        start = f"maximum {name} usage per {kind} is {most}, but "
        if limit is None and not claim:
            problems.append(f"{start}no limit is specified")
        elif limit is not None and amount(limit) > amount(most):
            problems.append(f"{start}limit is {limit}")
        elif request is not None and amount(request) > amount(most):
            problems.append(f"{start}request is {request}")
    for name, ratio in item.get("maxLimitRequestRatio", {}).items():
        limit = limits.get(name)
        request = requests.get(name)
        start = f"{name} max limit to request ratio per {kind} is {ratio}, but "
        if limit is None or request is None or not amount(request).nanos:
            problems.append(f"{start}no limit is specified or request is 0")
        elif amount(limit).nanos / amount(request).nanos > amount(ratio).nanos / 10**9:
            problems.append(f"{start}provided ratio is {amount(limit).nanos / amount(request).nanos:f}")
    return problems
