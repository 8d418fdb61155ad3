"""
Random edits of 20 kinds by kubectl: one apply brings the declared fields back, and leaves those of controllers alone.

GITSYNC_HAND_EDITS is how many run, 40 by default; each is named by its seed, which repeats it.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import find_drift
from tests.plan.factories import SERVICE, application, applied, config, deployment, desired_of, live_of, plan_of
from tests.plan.factories import schema_of as schema_by_kind

RUNS = int(os.environ.get("GITSYNC_HAND_EDITS", "40"))
APP = application()
MANAGERS = ("kubectl-edit", "kubectl-patch", "kubectl-set", "kubectl", "kubectl-label", "kubectl-annotate")
CONTROLLER = "acme-operator"
FIXED = (
    "apiVersion",
    "kind",
    "metadata",
    "selector",
    "matchLabels",
    "roleRef",
    "name",
    "type",
    "accessModes",
    "storage",
)
"""Members that identify an object or an item, that other members depend on, or that the API server does not change."""


KEYS = ("port", "containerPort", "ip")
"""Members that an item of a list must have."""


def made(api: str, kind: str, **members: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "labels": {"app": "x"}}, **members}


CONTAINER = {
    "name": "c",
    "image": "registry/app:1",
    "args": ["serve"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "ports": [{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}],
    "securityContext": {"allowPrivilegeEscalation": False},
}
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"serviceAccountName": "x", "containers": [CONTAINER]}}
SELECTOR = {"matchLabels": {"app": "x"}}
RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
SUBJECT = {"kind": "ServiceAccount", "name": "x", "namespace": "shop"}
RBAC = "rbac.authorization.k8s.io/v1"
KINDS = (
    deployment(),
    SERVICE,
    config(),
    made("apps/v1", "StatefulSet", spec={"replicas": 2, "serviceName": "x", "selector": SELECTOR, "template": POD}),
    made("apps/v1", "DaemonSet", spec={"selector": SELECTOR, "minReadySeconds": 5, "template": POD}),
    made(
        "batch/v1",
        "CronJob",
        spec={"schedule": "0 * * * *", "suspend": False, "jobTemplate": {"spec": {"template": POD}}},
    ),
    made("networking.k8s.io/v1", "Ingress", spec={"ingressClassName": "a", "rules": [{"host": "a.example"}]}),
    made("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": SELECTOR, "policyTypes": ["Ingress"]}),
    made("autoscaling/v2", "HorizontalPodAutoscaler", spec={"minReplicas": 1, "maxReplicas": 3}),
    made("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": 1, "selector": SELECTOR}),
    made("v1", "ServiceAccount", automountServiceAccountToken=False, imagePullSecrets=[{"name": "registry"}]),
    made("v1", "Secret", data={"a": "YQ==", "b": "Yg=="}),
    made("v1", "ResourceQuota", spec={"hard": {"pods": "10", "services": "3"}}),
    made("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}}]}),
    made(
        "v1",
        "PersistentVolumeClaim",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    ),
    made(RBAC, "Role", rules=[RULE]),
    made(
        RBAC,
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"},
        subjects=[SUBJECT],
    ),
    made("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "x", "leaseDurationSeconds": 15}),
    made("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}], ports=[]),
    made("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]),
)


def schema_of(manifest: Manifest) -> Any:
    schema = schema_by_kind(manifest)
    assert schema is not None, manifest["kind"]
    return schema


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the values that a user may edit."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if key not in FIXED:
            yield (*path, key)
            yield from places(member, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def change(value: Any, number: int) -> Any:
    """Return another value of the same type; a list has one item more, a map another member."""
    match value:
        case bool():
            return not value
        case int():
            return value + number
        case str():
            return f"{value}-{number}"
        case [dict() as first, *_] if "name" in first:
            ports = {key: 1000 + number for key in ("port", "containerPort") if key in first}
            return [*value, {**first, "name": f"edited-{number}", **ports}]
        case [*items]:
            return (
                [*items, f"edited-{number}"] if items and all(isinstance(item, str) for item in items) else items[:-1]
            )
        case _:
            return value


def has_duplicates(value: Any) -> bool:
    """Whether a list has two items of one name or port, which the API server rejects."""
    members = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    for key in ("name", "port", "containerPort"):
        keys = [item[key] for item in members if isinstance(item, dict) and key in item]
        if isinstance(value, list) and len(set(map(str, keys))) < len(keys):
            return True
    return any(map(has_duplicates, members))


def edit(live: Manifest, declared: Manifest, seed: random.Random) -> Manifest:
    """Return a live object after one edit by a command of kubectl."""
    after = copy.deepcopy(live)
    number = seed.randrange(1, 100)
    manager = seed.choice(MANAGERS)
    kind = seed.random()
    if manager in ("kubectl-label", "kubectl-annotate"):
        members = "labels" if manager == "kubectl-label" else "annotations"
        after["metadata"].setdefault(members, {})[f"edited-{number}"] = "by-hand"
    else:
        path = seed.choice([path for path in places(declared) if path])
        try:
            holder = at(after, path[:-1])
            if kind < 0.25 and isinstance(holder, dict) and path[-1] not in KEYS:
                holder.pop(path[-1], None)
            else:
                holder[path[-1]] = change(holder[path[-1]], number)
        except (KeyError, IndexError):
            return live  # an earlier edit removed it
    if has_duplicates(after):
        return live  # the API server rejects it
    return update_object(live, after, schema_of(declared), Write(manager, f"2026-01-02T00:00:{number % 60:02}Z"))


def repaired(declared: Manifest, live: dict[ObjectRef, Manifest]) -> dict[ObjectRef, Manifest]:
    """Return the cluster after the plan: at most one write, the apply of what was declared."""
    plan = plan_of(APP, [declared], live, before=[declared])
    assert plan.writes == ()
    for step in plan.repairs:
        target = live[step.ref]
        assert step.desired is not None
        assert step.removed == ()
        if step.managed_fields is not None:
            target = {**target, "metadata": {**metadata_of(target), "managedFields": list(step.managed_fields)}}
        live = {**live, step.ref: applied(step.desired, target)}
    return live


@pytest.mark.parametrize("seed", range(RUNS))
def test_one_write_brings_every_edit_back(seed: int) -> None:
    choices = random.Random(seed)
    declared = copy.deepcopy(KINDS[seed % len(KINDS)])
    (ref,) = desired_of(APP, declared)
    live = live_of(APP, declared)
    controlled = copy.deepcopy(live[ref])
    controlled["metadata"].setdefault("annotations", {})["acme.example/state"] = "kept"
    live[ref] = update_object(live[ref], controlled, schema_of(declared), Write(CONTROLLER, "2026-01-01T12:00:00Z"))
    for _ in range(choices.randrange(1, 5)):
        live[ref] = edit(live[ref], declared, choices)
    after = repaired(declared, live)
    (desired,) = desired_of(APP, declared).values()
    drift = find_drift(desired, after[ref], schema_of(declared))
    assert drift.in_sync, drift.differences
    assert after[ref]["metadata"]["annotations"]["acme.example/state"] == "kept"
    again = plan_of(APP, [declared], after, before=[declared])
    assert again.repairs == ()
    assert again.writes == ()
