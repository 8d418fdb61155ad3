from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from tests.sandbox.kinds.factories import created, job, of, pod_spec, refused_change, workload

SELECTOR = {"matchLabels": {"app": "y"}}
TEMPLATE = {"metadata": {"labels": {"app": "y"}}, "spec": {**pod_spec(), "restartPolicy": "Always"}}
CLAIM = of(
    "v1",
    "PersistentVolumeClaim",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
VOLUME = of(
    "v1",
    "PersistentVolume",
    spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
)
SERVICE = of("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
CLASS = of("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/x"})
BINDING = of("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef={"kind": "Role", "name": "r"})
FIXED = of("v1", "ConfigMap", data={"a": "1"}, immutable=True)


@pytest.mark.parametrize(
    ("manifest", "path", "value", "fields"),
    [
        pytest.param(
            workload("DaemonSet"), ("spec", "selector"), SELECTOR, "spec.template.metadata.labels spec.selector"
        ),
        pytest.param(workload("StatefulSet"), ("spec", "serviceName"), "z", "spec"),
        pytest.param(job(), ("spec", "completions"), 5, "spec.completions"),
        pytest.param(job(), ("spec", "completionMode"), "Indexed", "spec.completionMode"),
        pytest.param(job(), ("spec", "template", "spec", "containers", 0, "image"), "z", "spec.template"),
        pytest.param(CLAIM, ("spec", "resources", "requests", "storage"), "2Gi", "spec"),
        pytest.param(CLAIM, ("spec", "volumeMode"), "Block", "spec volumeMode"),
        pytest.param(VOLUME, ("spec", "hostPath", "path"), "/b", "spec.persistentvolumesource"),
        pytest.param(SERVICE, ("spec", "clusterIP"), "10.96.9.9", "spec.clusterIPs[0]"),
        pytest.param(CLASS, ("spec", "controller"), "example.com/y", "spec.controller"),
        pytest.param(BINDING, ("roleRef", "name"), "z", "roleRef"),
        pytest.param(FIXED, ("data", "a"), "2", "data"),
        pytest.param(FIXED, ("immutable",), False, "immutable"),
        pytest.param(of("v1", "Secret"), ("type",), "example.com/x", "type"),
        pytest.param(of("v1", "Pod", spec=pod_spec()), ("spec", "nodeSelector"), {"a": "b"}, "spec"),
    ],
)
def test_some_members_may_not_change(manifest: Any, path: Any, value: Any, fields: str) -> None:
    causes = refused_change(manifest, *path, value=value)
    assert [field for field, _ in causes] == fields.split()
    assert all(re.search("immutable|may not|not match|forbidden|cannot change", text) for _, text in causes)


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        pytest.param(workload("Deployment"), ("spec", "replicas"), 3),
        pytest.param(workload("StatefulSet"), ("spec", "revisionHistoryLimit"), 3),
        pytest.param(job(), ("spec", "parallelism"), 3),
        pytest.param(job(), ("spec", "suspend"), True),
        pytest.param(CLAIM, ("spec", "storageClassName"), "fast"),
        pytest.param(SERVICE, ("spec", "clusterIP"), ""),
        pytest.param(SERVICE, ("spec", "clusterIP"), None),
        pytest.param(FIXED, ("metadata", "labels"), {"a": "b"}),
        pytest.param(of("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1}), ("spec", "selector"), SELECTOR),
        pytest.param(
            of("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}}), ("spec", "podSelector"), SELECTOR
        ),
        pytest.param(of("v1", "Pod", spec=pod_spec()), ("spec", "containers", 0, "image"), "nginx:2"),
        pytest.param(of("v1", "Pod", spec=pod_spec()), ("spec", "activeDeadlineSeconds"), 5),
    ],
)
def test_others_may(manifest: Any, path: Any, value: Any) -> None:
    assert refused_change(manifest, *path, value=value) == []


def test_a_bound_claim_may_grow() -> None:
    bound = {**CLAIM, "spec": {**CLAIM["spec"], "volumeName": "v"}}
    strategy = strategy_for("", "v1", "PersistentVolumeClaim")
    old = {**strategy.default(bound), "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    old["metadata"] = {"name": "x", "namespace": "scene"}
    requests = {"requests": {"storage": "2Gi"}}
    grown = {**old, "spec": {**old["spec"], "resources": requests}}
    assert strategy.validate(grown, old, "") == []
    shrunk = {**old, "spec": {**old["spec"], "resources": {"requests": {"storage": "512Mi"}}}}
    assert [cause.field for cause in strategy.validate(shrunk, old, "")] == ["spec.resources.requests.storage"]


def test_a_refused_change_of_a_claim_is_shown() -> None:
    ((_, text),) = refused_change(CLAIM, "spec", "accessModes", value=["ReadWriteMany"])
    assert text.splitlines()[1:] == [
        "@@ -1,6 +1,6 @@",
        " {",
        '  "AccessModes": [',
        '-  "ReadWriteOnce"',
        '+  "ReadWriteMany"',
        "  ],",
        '  "Selector": null,',
        '  "Resources": {',
    ]


AFFINITY = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
        }
    }
}
POD = ("spec", "template", "spec")
SUSPENDED = job(suspend=True)


@pytest.mark.parametrize(
    ("path", "value", "fields"),
    [
        pytest.param((*POD, "nodeSelector"), {"a": "b"}, []),
        pytest.param((*POD, "tolerations"), [{"key": "a", "operator": "Exists"}], []),
        pytest.param((*POD, "affinity"), NODE_AFFINITY, []),
        pytest.param((*POD, "affinity"), AFFINITY, ["spec.template.spec"]),
        pytest.param((*POD, "containers", 0, "resources"), {"requests": {"cpu": "1"}}, []),
        pytest.param((*POD, "containers", 0, "image"), "z", ["spec.template.spec"]),
        pytest.param(("spec", "template", "metadata", "annotations"), {"a": "b"}, []),
    ],
)
def test_suspended_job_may_change_its_placement_only(path: Any, value: Any, fields: list[str]) -> None:
    assert [field for field, _ in refused_change(SUSPENDED, *path, value=value)] == fields


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        pytest.param({}, [], id="never started"),
        pytest.param({"startTime": "2026-01-01T00:00:00Z"}, ["spec.template"], id="started"),
        pytest.param({"active": 1}, ["spec.template"], id="active pods"),
        pytest.param(
            {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]},
            [],
            id="stopped",
        ),
    ],
)
def test_suspended_job_keeps_its_template_until_its_pods_are_gone(status: Any, fields: list[str]) -> None:
    old = {**created(SUSPENDED), "status": status}
    new = copy.deepcopy(old)
    new["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    causes = strategy_for("batch", "v1", "Job").validate(new, old, "")
    assert [cause.field for cause in causes] == fields


def test_completions_of_an_indexed_job_change_with_parallelism_only() -> None:
    indexed = job(completionMode="Indexed", completions=2, parallelism=3)
    text = "Invalid value: 5: can only be modified in tandem with spec.parallelism"
    assert refused_change(indexed, "spec", "completions", value=5) == [("spec.completions", text)]
    assert refused_change(indexed, "spec", "completions", value=3) == []


def test_changed_selector_of_a_job_is_reported_as_immutable_only() -> None:
    manual = job(
        manualSelector=True,
        selector={"matchLabels": {"a": "b"}},
        template={"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {**pod_spec(), "restartPolicy": "Never"}},
    )
    changed = refused_change(manual, "spec", "selector", value={"matchLabels": {"c": "d"}})
    assert [field for field, _ in changed] == ["spec.selector"]
