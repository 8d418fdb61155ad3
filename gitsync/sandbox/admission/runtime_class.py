"""Set the overhead and the scheduling constraints of a pod from its RuntimeClass."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import Attributes
from gitsync.sandbox.controllers.client import ControllerClient


def with_runtime_class(api: ControllerClient, pod: Manifest, attributes: Attributes) -> Manifest:
    """Return the pod with the overhead, node selector and tolerations of its RuntimeClass, which must exist."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    found = api.get("node.k8s.io", "RuntimeClass", "", name) if name else {}
    if found is None:
        raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed")
    given = spec.get("overhead")
    if given and not overhead:
        raise attributes.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given and given != overhead:
        raise attributes.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    members: dict[str, Any] = {"overhead": overhead} if overhead else {}
    scheduling = found.get("scheduling") or {}
    nodes, wanted = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in nodes.items():
        if wanted.get(key, value) != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {wanted[key]}"
            )
    if nodes:
        members["nodeSelector"] = {**wanted, **nodes}
    tolerations = spec.get("tolerations", [])
    added = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
    if added:
        members["tolerations"] = [*tolerations, *added]
    return {**pod, "spec": {**spec, **members}} if members else pod
