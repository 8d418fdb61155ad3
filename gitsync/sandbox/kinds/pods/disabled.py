"""Members of pod specs behind feature gates that are off in a cluster: the server drops them (pkg/api/pod/util.go)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest

POD_SPECS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
}
"""The path of the pod spec in each kind that has one."""

_SPEC = ("schedulingGroup",)
_SOURCE = ("clusterTrustBundle", "podCertificate")


def without_disabled(obj: Manifest, path: tuple[str, ...]) -> Manifest:
    """Return an object whose pod spec has none of these members; the very same one when it had none."""
    if not any(True for _ in _disabled(_at(obj, path))):
        return obj
    out = copy.deepcopy(obj)
    for holder, member in list(_disabled(_at(out, path))):
        del holder[member]
    return out


def _at(obj: Manifest, path: tuple[str, ...]) -> dict[str, Any]:
    value: Any = obj
    for part in path:
        value = value.get(part) or {}
    found: dict[str, Any] = value
    return found


def _disabled(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    yield from ((spec, member) for member in _SPEC if member in spec)
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from ((source, member) for member in _SOURCE if member in source)
