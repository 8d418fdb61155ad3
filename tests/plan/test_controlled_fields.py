"""What controllers write into declared fields on purpose stays: their work is neither drift nor repaired."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.merge.apply import Conflicts
from gitsync.merge.field_manager import Write, apply_object, update_object
from gitsync.merge.schema import Schema, schema_from_crd
from gitsync.objects.change import Action, Change
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.controlled_fields import CONTROLLED, QUEUE_NAME, SUSPENDED_BY_KUEUE
from tests.plan.factories import application, desired_of, edited, live_of, plan_of, schema_of

APP = application()
Edit = Callable[[dict[str, Any]], Any]

LEAST = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
WORKER = {
    "containers": [{"name": "worker", "image": "worker:1"}],
    "nodeSelector": {"arch": "amd64"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
}


def queued(kind: str, spec: dict[str, Any], api: str = "batch/v1", **annotations: str) -> Manifest:
    """Return an object that Git hands to Kueue."""
    metadata = {"name": "train", "labels": {QUEUE_NAME: "team"}, "annotations": annotations}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def job(**spec: Any) -> Manifest:
    return queued("Job", {"template": {"spec": {**WORKER, "restartPolicy": "Never"}}, **spec})


PARTIAL = edited(job(parallelism=20, completions=20), ("metadata", "annotations"), {LEAST: "5"})
EQUALLY = edited(PARTIAL, ("metadata", "annotations"), {LEAST: "5", EQUAL: "true"})
SET = queued(
    "JobSet",
    {"suspend": True, "replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": WORKER}}}}]},
    "jobset.x-k8s.io/v1alpha2",
)
RAY_CLUSTER = {
    "headGroupSpec": {"template": {"spec": copy.deepcopy(WORKER)}},
    "workerGroupSpecs": [{"template": {"spec": WORKER}}],
}
RAY = queued("RayJob", {"suspend": True, "rayClusterSpec": RAY_CLUSTER}, "ray.io/v1")
TORCH = queued(
    "PyTorchJob",
    {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Master": {"template": {"spec": WORKER}}}},
    "kubeflow.org/v1",
)


def struct(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def array(items: dict[str, Any], **marks: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **marks}


NAMES = {"type": "object", "additionalProperties": {"type": "string"}}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEMPLATE = struct(
    metadata=struct(labels=NAMES, annotations=NAMES),
    spec=struct(nodeSelector=NAMES, tolerations=array(ANYTHING), containers=array(ANYTHING), volumes=array(ANYTHING)),
)
FLAG = {"type": "boolean"}
NAMED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SPECS = {
    "JobSet": struct(
        suspend=FLAG,
        replicatedJobs=array(struct(name={"type": "string"}, template=struct(spec=struct(template=TEMPLATE))), **NAMED),
    ),
    "RayJob": struct(
        suspend=FLAG,
        rayClusterSpec=struct(
            headGroupSpec=struct(template=TEMPLATE),
            workerGroupSpecs=array(struct(template=TEMPLATE, scaleStrategy=ANYTHING, priority={"type": "integer"})),
        ),
    ),
    "PyTorchJob": struct(
        runPolicy=struct(suspend=FLAG),
        pytorchReplicaSpecs={"type": "object", "additionalProperties": struct(template=TEMPLATE)},
    ),
}
"""The schemas of custom kinds, with the lists as their definitions mark them."""
CUSTOM = {kind: schema_from_crd(struct(spec=spec)) for kind, spec in SPECS.items()}


def schema(manifest: Manifest) -> Schema | None:
    return CUSTOM.get(manifest["kind"]) or schema_of(manifest)


def planned(manifest: Manifest, live: dict[ObjectRef, Manifest]) -> Change:
    """Return what a plan does to an object that was applied as it is declared: its repair, or nothing."""
    plan = plan_of(APP, [manifest], live, before=[manifest], schemas=schema)
    return next(iter((*plan.repairs, *plan.changes)))


def written(manifest: Manifest, edit: Edit, manager: str) -> dict[ObjectRef, Manifest]:
    """Return the cluster after a manager updated the declared object."""
    known = schema(manifest)
    assert known is not None
    ((ref, declared),) = desired_of(APP, manifest).items()
    live = apply_object(None, declared, known, Write(FIELD_MANAGER, "2026-01-01T00:00:00Z"), force=True)
    assert not isinstance(live, Conflicts)
    after = copy.deepcopy(live)
    edit(after["spec"])
    return {ref: update_object(live, after, known, Write(manager, "2026-01-02T00:00:00Z"))}


def place(template: dict[str, Any]) -> None:
    """Write into a Pod template what Kueue does for an admitted one."""
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "main"}, "annotations": {}}
    template["spec"]["nodeSelector"] = {**template["spec"]["nodeSelector"], "pool": "spot"}
    template["spec"]["tolerations"] = [*template["spec"]["tolerations"], {"key": "spot", "operator": "Exists"}]


def place_job(spec: dict[str, Any]) -> None:
    place(spec["template"])


def place_set(spec: dict[str, Any]) -> None:
    place(spec["replicatedJobs"][0]["template"]["spec"]["template"])


def place_ray(spec: dict[str, Any]) -> None:
    cluster = spec["rayClusterSpec"]
    place(cluster["headGroupSpec"]["template"])
    place(cluster["workerGroupSpecs"][0]["template"])
    # what Go writes of members that are not set
    cluster["workerGroupSpecs"][0].update({"scaleStrategy": {}, "priority": 0})
    cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = {}


def place_torch(spec: dict[str, Any]) -> None:
    place(spec["pytorchReplicaSpecs"]["Master"]["template"])


def admit_job(spec: dict[str, Any]) -> None:
    spec["suspend"] = False
    place_job(spec)


def admit_set(spec: dict[str, Any]) -> None:
    spec["suspend"] = False
    place_set(spec)


def admit_ray(spec: dict[str, Any]) -> None:
    del spec["suspend"]  # false is not stored: the Go type has omitempty
    place_ray(spec)


def admit_torch(spec: dict[str, Any]) -> None:
    spec["runPolicy"]["suspend"] = False
    place_torch(spec)


@pytest.mark.parametrize(
    ("manifest", "admit"),
    [
        pytest.param(job(), admit_job, id="Job"),
        pytest.param(job(suspend=True), admit_job, id="Job that is declared as suspended"),
        pytest.param(SET, admit_set, id="JobSet"),
        pytest.param(RAY, admit_ray, id="RayJob"),
        pytest.param(TORCH, admit_torch, id="PyTorchJob"),
    ],
)
def test_what_kueue_does_to_an_admitted_job_stays(manifest: Manifest, admit: Edit) -> None:
    assert planned(manifest, written(manifest, admit, "kueue")).action is Action.NOTHING


@pytest.mark.parametrize(
    ("manifest", "edit"),
    [
        pytest.param(job(), place_job, id="Job"),
        pytest.param(SET, place_set, id="JobSet"),
        pytest.param(RAY, place_ray, id="RayJob"),
        pytest.param(TORCH, place_torch, id="PyTorchJob"),
    ],
)
def test_other_nodes_that_a_user_chose_are_repaired(manifest: Manifest, edit: Edit) -> None:
    step = planned(manifest, written(manifest, edit, "kubectl-edit"))
    assert step.is_repair
    assert at(step.desired, "spec") == manifest["spec"]


def test_a_commit_keeps_what_kueue_placed() -> None:
    live = written(job(suspend=True), admit_job, "kueue")
    changed = edited(job(suspend=True), ("spec", "template", "spec", "containers", 0, "image"), "worker:2")
    (step,) = plan_of(APP, [changed], live).changes
    assert step.action is Action.UPDATE
    template = at(step.desired, "spec", "template", "spec")
    assert template["nodeSelector"] == {"arch": "amd64", "pool": "spot"}
    assert [item["key"] for item in template["tolerations"]] == ["gpu", "spot"]
    assert at(step.desired, "spec", "suspend") is None


def hijack_image(spec: dict[str, Any]) -> None:
    admit_ray(spec)
    spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "evil:1"


def move_declared(spec: dict[str, Any]) -> None:
    admit_ray(spec)
    spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"]["arch"] = "arm64"


def add_group(spec: dict[str, Any]) -> None:
    admit_ray(spec)
    spec["rayClusterSpec"]["workerGroupSpecs"].append({"template": {"spec": WORKER}})


def add_volume(spec: dict[str, Any]) -> None:
    admit_ray(spec)
    spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["volumes"] = [{"name": "x"}]


@pytest.mark.parametrize("edit", [hijack_image, move_declared, add_group, add_volume])
def test_what_kueue_never_does_is_repaired_whoever_wrote_it(edit: Edit) -> None:
    assert planned(RAY, written(RAY, edit, "kueue")).is_repair


def test_a_job_that_kueue_starts_or_stops_is_not_repaired() -> None:
    declared = job(suspend=False)
    live = written(declared, lambda spec: spec.update(suspend=True), "kueue")
    assert planned(declared, live).action is Action.NOTHING
    live = written(declared, lambda spec: spec.update(suspend=True), "kubectl-patch")
    assert planned(declared, live).is_repair


def test_a_job_that_the_webhook_suspended_stays_suspended() -> None:
    declared = job(suspend=False)
    live = live_of(APP, job(suspend=True))  # the webhook changed our own request
    (step,) = plan_of(APP, [declared], live).changes
    assert step.action is Action.NOTHING
    changed = edited(declared, ("spec", "template", "spec", "containers", 0, "image"), "worker:2")
    (step,) = plan_of(APP, [changed], live).changes
    assert at(step.desired, "spec", "suspend") is True


def test_a_job_without_a_queue_is_as_git_declares() -> None:
    declared = edited(job(suspend=True), ("metadata", "labels"), {})
    live = written(declared, lambda spec: spec.update(suspend=False), "kueue")
    assert planned(declared, live).is_repair


@pytest.mark.parametrize(
    ("declared", "counts", "is_kept"),
    [
        pytest.param(PARTIAL, {"parallelism": 9}, True, id="fewer than declared"),
        pytest.param(PARTIAL, {"parallelism": 5}, True, id="the least"),
        pytest.param(PARTIAL, {"parallelism": 4}, False, id="fewer than the least"),
        pytest.param(PARTIAL, {"parallelism": 21}, False, id="more than declared"),
        pytest.param(PARTIAL, {"parallelism": 9, "completions": 9}, False, id="other completions"),
        pytest.param(EQUALLY, {"parallelism": 9, "completions": 9}, True, id="equal completions"),
        pytest.param(EQUALLY, {"parallelism": 9, "completions": 8}, False, id="completions that are not equal"),
        pytest.param(job(parallelism=20), {"parallelism": 9}, False, id="without the annotation"),
        pytest.param(
            edited(PARTIAL, ("metadata", "annotations"), {LEAST: "few"}), {"parallelism": 9}, False, id="no number"
        ),
    ],
)
def test_kueue_admits_a_part_of_a_job_only_as_git_permits(
    declared: Manifest, counts: dict[str, int], is_kept: bool
) -> None:
    step = planned(declared, written(declared, lambda spec: spec.update(counts), "kueue"))
    assert step.is_repair is not is_kept


def test_each_kind_that_kueue_suspends_and_places_is_known() -> None:
    # a TrainJob gets a patch of its own list, a SparkApplication fields of its own
    placed = {of for of, entry in CONTROLLED.items() if entry.manager == "kueue"}
    assert {of.kind for of in SUSPENDED_BY_KUEUE.keys() - placed} == {"TrainJob", "SparkApplication"}
    assert placed <= SUSPENDED_BY_KUEUE.keys()


AMOUNT = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]"
    r"|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}
CUSTOM["Queue"] = schema_from_crd(
    struct(spec=struct(limit=AMOUNT, port={"x-kubernetes-int-or-string": True}, quotas=array(struct(nominal=AMOUNT))))
)


@pytest.mark.parametrize(
    ("spec", "rewritten", "is_kept"),
    [
        pytest.param({"limit": 1}, {"limit": "1"}, True, id="a number"),
        pytest.param({"limit": "1024Mi"}, {"limit": "1Gi"}, True, id="another suffix"),
        pytest.param({"quotas": [{"nominal": 9}]}, {"quotas": [{"nominal": "9"}]}, True, id="in a list"),
        pytest.param({"limit": 1}, {"limit": "2"}, False, id="another amount"),
        pytest.param(
            {"quotas": [{"nominal": 9}]}, {"quotas": [{"nominal": "8"}]}, False, id="another amount in a list"
        ),
        pytest.param({"port": 1}, {"port": "1"}, False, id="a port by name is not one by number"),
    ],
)
def test_a_quantity_that_an_operator_rewrites_stays(
    spec: dict[str, Any], rewritten: dict[str, Any], is_kept: bool
) -> None:
    declared = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
    step = planned(declared, written(declared, lambda live_spec: live_spec.update(rewritten), "operator"))
    assert (step.action is Action.NOTHING) is is_kept
    assert step.is_repair is not is_kept


def test_a_commit_sends_a_quantity_as_its_operator_spells_it() -> None:
    spec = {"limit": 1, "port": 80, "quotas": [{"nominal": 9}]}
    declared = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}
    live = written(declared, lambda live_spec: live_spec.update(limit="1"), "operator")
    step = planned(edited(declared, ("spec", "port"), 81), live)
    assert at(step.desired, "spec") == {**spec, "limit": "1", "port": 81}


@pytest.mark.parametrize(("manager", "is_kept"), [(FIELD_MANAGER, True), ("kubectl-edit", False)])
def test_the_nodes_that_admission_chose_for_a_pod_stay(manager: str, is_kept: bool) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": WORKER}
    # a webhook changes the request itself, so that its work is recorded as ours
    step = planned(pod, written(pod, lambda spec: place({"spec": spec}), manager))
    assert (step.action is Action.NOTHING) is is_kept
