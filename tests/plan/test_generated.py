"""Generated objects that Git no longer declares: how long they stay, and what follows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.change import Action, Change, Risk
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import build_plan
from gitsync.plan.generated import predecessors, read_by
from gitsync.plan.options import options_of
from gitsync.plan.steps import ClusterState, PlanInput
from tests.plan.factories import application, config, desired_of, inventory_of, live_of, ref, schema_of

OLD, OLDER, NEW = "conf-2456789bcd", "conf-2222222222", "conf-ttttttttt2"
HOOK = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "migrate", "annotations": {"gitsync.dev/hook": "PreSync"}},
    "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}], "restartPolicy": "Never"}}},
}


def steps(
    *names: str, readers: dict[str, str] | None = None, keep: int = 0, is_applied: bool = False, **state: Any
) -> dict[str, Change]:
    """Return the steps by name where ConfigMaps of these names are live, oldest first, and Git declares the newest."""
    app = replace(application(), is_deleted=state.get("is_deleted", False))
    app = replace(app, sync=app.sync.model_copy(update={"keep_generated": keep}))
    live = live_of(app, *(config(name, key=name) for name in names))
    for number, manifest in enumerate(live.values()):
        manifest["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{number}Z"
        manifest["metadata"]["annotations"] |= state.get("annotations", {})
    declared = [config(NEW, key=NEW), *state.get("more", ())]
    desired = {} if app.is_deleted else desired_of(app, *declared)
    cluster = ClusterState(live, readers={ref(config(name)): text for name, text in (readers or {}).items()})
    options = {item: options_of(manifest) for item, manifest in desired.items()}
    inputs = PlanInput(app, desired, options, cluster, inventory_of(live), schema_of, is_applied=is_applied)
    return {step.ref.name: step for step in build_plan(inputs, "commit").changes}


def test_a_generated_object_that_pods_read_is_kept() -> None:
    step = steps(OLD, readers={OLD: "Pod web-1 reads it"})[OLD]
    assert step.action is Action.NOTHING
    assert step.reason == "kept: Pod web-1 reads it; it is deleted afterwards"


def test_one_that_nothing_reads_is_pruned_with_its_commit() -> None:
    step = steps(OLD)[OLD]
    assert (step.action, step.risk, step.is_leftover) == (Action.PRUNE, Risk.MODERATE, False)


def test_what_the_applied_commit_left_is_deleted_unasked() -> None:
    step = steps(OLD, NEW, is_applied=True)[OLD]
    assert (step.action, step.risk, step.rule) == (Action.PRUNE, Risk.SAFE, "deletes-leftover")


def test_a_leftover_that_asks_for_confirmation_asks() -> None:
    step = steps(OLD, NEW, is_applied=True, annotations={"gitsync.dev/prune": "confirm"})[OLD]
    assert step.risk is Risk.DANGEROUS


def test_another_name_is_pruned_although_pods_read_it() -> None:
    assert steps("settings", readers={"settings": "Pod web-1 reads it"})["settings"].action is Action.PRUNE


def test_what_is_pruned_last_is_kept_while_pods_read_it() -> None:
    last = {"argocd.argoproj.io/sync-options": "PruneLast=true"}
    readers = {"settings": "Pod web-1 reads it"}
    assert steps("settings", readers=readers, annotations=last)["settings"].action is Action.NOTHING
    assert steps("settings", is_applied=True, annotations=last)["settings"].is_leftover


def test_a_deleted_application_keeps_nothing() -> None:
    step = steps(OLD, readers={OLD: "Pod web-1 reads it"}, is_deleted=True)[OLD]
    assert step.action is Action.PRUNE


@pytest.mark.parametrize(
    ("keep", "pruned"),
    [(0, {OLDER, OLD}), (1, {OLDER}), (2, set()), (9, set())],
)
def test_the_newest_of_a_name_are_kept_for_a_rollback(keep: int, pruned: set[str]) -> None:
    plan = steps(OLDER, OLD, NEW, keep=keep, is_applied=True)
    assert {name for name, step in plan.items() if step.action is Action.PRUNE} == pruned


def test_names_are_counted_apart() -> None:
    plan = steps(OLD, "other-2456789bcd", keep=1)
    assert all(step.action is not Action.PRUNE for step in plan.values())


def test_a_new_one_follows_the_newest_that_is_kept() -> None:
    step = steps(OLDER, OLD, readers={OLD: "Pod web-1 reads it"}, keep=2)[NEW]
    assert step.follows is not None
    assert step.follows.name == OLD


def test_a_leftover_alone_runs_no_hooks() -> None:
    plan = steps(OLD, NEW, is_applied=True, more=[HOOK])
    assert (plan[OLD].action, plan["migrate"].action) == (Action.PRUNE, Action.NOTHING)


def test_a_commit_that_prunes_one_runs_its_hooks() -> None:
    plan = steps(OLD, NEW, more=[HOOK])
    assert (plan[OLD].action, plan["migrate"].action) == (Action.PRUNE, Action.HOOK)


def test_the_newest_of_a_family_is_the_predecessor() -> None:
    live = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "creationTimestamp": at}}
        for name, at in ((OLD, "2026-01-02T00:00:00Z"), (OLDER, "2026-01-01T00:00:00Z"))
    ]
    pruned = [
        Change(ObjectRef("", "ConfigMap", "", item["metadata"]["name"]), Action.PRUNE, live=item) for item in live
    ]
    assert [item["metadata"]["name"] for item in predecessors(pruned).values()] == [OLD]


def part(kind: str, name: str, spec: Manifest, **more: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec, **more}


VOLUME = {"containers": [{"name": "a"}], "volumes": [{"name": "v", "configMap": {"name": OLD}}]}
SECRET = {"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": OLD}}]}]}


@pytest.mark.parametrize(
    ("manifest", "kinds"),
    [
        pytest.param(part("Pod", "web-1", VOLUME), ["ConfigMap"], id="Pod"),
        pytest.param(part("Pod", "web-1", SECRET), ["Secret"], id="Pod with a Secret"),
        pytest.param(part("Pod", "web-1", VOLUME, status={"phase": "Succeeded"}), [], id="Pod that ended"),
        pytest.param(part("ReplicaSet", "web", {"template": {"spec": VOLUME}}), ["ConfigMap"], id="one replica"),
        pytest.param(part("ReplicaSet", "web", {"replicas": 0, "template": {"spec": VOLUME}}), [], id="no replicas"),
        pytest.param(part("Service", "web", {"ports": []}), [], id="no Pods"),
    ],
)
def test_what_a_part_reads(manifest: Manifest, kinds: list[str]) -> None:
    assert [item.kind for item, _ in read_by(manifest)] == kinds
