"""What PreSync hooks need is created before them."""

from __future__ import annotations

from typing import Any

from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.hook_needs import is_needed_by_hooks, needs_first
from gitsync.plan.order import OBJECTS, PRE_SYNC, in_order, stage_of


def manifest(api: str, kind: str, name: str, namespace: str = "shop", **members: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **members}


def create(api: str, kind: str, name: str, namespace: str = "shop", **members: Any) -> Change:
    made = manifest(api, kind, name, namespace, **members)
    ref = ref_of(made)
    return Change(ref, Action.CREATE, stage=stage_of(ref.of), wave=3, desired=made)


def hook(stage: int = PRE_SYNC, **spec: Any) -> Change:
    made = manifest("batch/v1", "Job", "before", spec={"template": {"spec": spec}})
    return Change(ref_of(made), Action.HOOK, stage=stage, desired=made)


def moved(*steps: Change) -> list[str]:
    return [step.ref.name for step in in_order(needs_first(steps)) if is_needed_by_hooks(step)]


def test_the_namespace_precedes_what_is_in_it() -> None:
    steps = (
        hook(volumes=[{"secret": {"secretName": "tls"}}]),
        create("v1", "Secret", "tls"),
        create("v1", "Namespace", "shop", ""),
        create("v1", "Secret", "other"),
    )
    assert moved(*steps) == ["shop", "tls"]
    assert [step.wave for step in needs_first(steps)][1:3] == [0, 0]


def test_every_reference_of_a_pod_counts() -> None:
    spec = {
        "serviceAccountName": "sa",
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"configMap": {"name": "files"}},
            {"persistentVolumeClaim": {"claimName": "disk"}},
            {"projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "part"}}]}},
        ],
        "initContainers": [{"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "a"}}}]}],
        "containers": [{"envFrom": [{"secretRef": {"name": "all"}}]}],
    }
    needs = [
        create("v1", "ServiceAccount", "sa"),
        create("v1", "Secret", "pull"),
        create("v1", "ConfigMap", "files"),
        create("v1", "PersistentVolumeClaim", "disk"),
        create("v1", "Secret", "part"),
        create("v1", "ConfigMap", "part"),
        create("v1", "ConfigMap", "key"),
        create("v1", "Secret", "all"),
    ]
    others = [create("v1", "ConfigMap", "pull"), create("v1", "Secret", "all", "elsewhere")]
    assert sorted(moved(hook(**spec), *needs, *others)) == sorted(step.ref.name for step in needs)


def test_the_rights_of_a_service_account_precede_the_hook() -> None:
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": "sa", "namespace": "shop"}]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "reader"}
    steps = (
        hook(serviceAccountName="sa"),
        create("v1", "ServiceAccount", "sa"),
        create(f"{rbac}/v1", "ClusterRole", "reader", ""),
        create(f"{rbac}/v1", "ClusterRole", "writer", ""),
        create(f"{rbac}/v1", "ClusterRoleBinding", "bound", "", subjects=subjects, roleRef=role),
    )
    assert moved(*steps) == ["reader", "bound", "sa"]


def test_only_absent_objects_and_hooks_before_the_sync_count() -> None:
    present = Change(ObjectRef("", "Namespace", "", "shop"), Action.UPDATE, stage=1, desired={}, live={})
    assert moved(hook(), present) == []
    assert moved(hook(OBJECTS), create("v1", "Namespace", "shop", "")) == []
    assert moved(create("v1", "Namespace", "shop", "")) == []
