"""The path of the pod spec in each kind that has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.admission.attributes import Attributes

_TEMPLATES = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}


def pod_spec_of(obj: Manifest, attributes: Attributes) -> tuple[Mapping[str, Any], str] | None:
    """Return the pod spec of an object and its path, None for a kind without pods."""
    path = _TEMPLATES.get((attributes.resource.group, attributes.resource.kind))
    if path is None:
        return None
    value: Any = obj
    for part in (*path, "spec"):
        value = value.get(part) or {}
    return value, ".".join((*path, "spec"))
