"""The content of steps, generated objects and what they follow, and the class of drift."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitsync.errors import Rejected
from gitsync.objects.change import ABSENT, Action, Difference, FieldDifference, FieldOwner, Risk
from gitsync.plan.display import whole_object
from gitsync.plan.mask import MASK
from gitsync.plan.risk.drift import drift_risk
from tests.plan.factories import application, applied, config, deployment, live_of, plan_of, ref

APP = application()
OLD, NEW = "prompt-k2h8cf4bdm", "prompt-cd4998t5gh"


def step(plan, action):
    return next(change for change in plan.writes if change.action is action)


def test_a_generated_object_has_its_differences_from_the_one_it_follows():
    live = live_of(APP, config(OLD, text="be nice", tone="calm"))
    created = step(plan_of(APP, [config(NEW, text="be rude", tone="calm")], live), Action.CREATE)
    assert created.follows == ref(config(OLD))
    assert [(item.path, item.live, item.desired) for item in created.differences] == [
        (".data.text", "be nice", "be rude")
    ]
    assert whole_object(created) is None


@pytest.mark.parametrize("name", ["web-deployment", "prompt-collectors", "prompt"])
def test_an_ordinary_name_is_not_taken_for_a_generated_one(name):
    live = live_of(APP, config(OLD, text="be nice"))
    created = step(plan_of(APP, [config(name, text="be rude")], live), Action.CREATE)
    assert created.follows is None
    assert whole_object(created) is not None


def test_a_replaced_object_has_its_differences():
    live = live_of(APP, config(a="1"))
    answer = Rejected("field is immutable", code=422)
    wanted = config(annotations={"gitsync.dev/replace": "true"}, a="2")
    changes = plan_of(APP, [wanted], live, dry_runs={ref(config()): answer}).writes
    assert [(item.path, item.live, item.desired) for item in changes[0].differences if ".data" in item.path] == [
        (".data.a", "1", "2")
    ]


def test_content_is_masked_and_without_what_the_server_sets():
    live = live_of(
        APP, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"token": "c2VjcmV0"}}
    )
    found = whole_object(step(plan_of(APP, [], live), Action.PRUNE))
    assert found is not None
    assert (found.desired is ABSENT, found.live["data"]) == (True, {"token": MASK})
    assert not {"uid", "resourceVersion", "managedFields"} & found.live["metadata"].keys()


def test_the_class_of_drift_is_that_of_what_was_changed_in_the_cluster():
    pinned, hotfix = deployment(image="web@sha256:1"), deployment(image="web:hotfix")
    live = live_of(APP, pinned)
    hotfix["metadata"]["namespace"] = "shop"
    live[ref(pinned)] = applied(hotfix, live[ref(pinned)], manager="kubectl-edit", resourceVersion="2")
    (change,) = plan_of(APP, [pinned], live).writes
    found = drift_risk(change)
    assert found is not None
    assert found.rule == "image-unpinned"
    assert "web:hotfix" in found.reason


def test_a_deleted_object_is_judged_as_a_deletion():
    change = step(plan_of(APP, [config()], {}), Action.CREATE)
    found = drift_risk(change)
    assert found is not None
    assert found.rule == "prunes"


@pytest.mark.parametrize(
    ("path", "risk"),
    [
        ('.spec.template.spec.containers[name="a"].env[name="MODEL_ID"]', Risk.DANGEROUS),
        ('.spec.template.spec.containers[name="side"]', Risk.DANGEROUS),
        (".spec.template.spec.securityContext.runAsUser", Risk.DANGEROUS),
        (".spec.tools", Risk.DANGEROUS),
        (".metadata.labels.owner", Risk.SAFE),
    ],
)
def test_added_fields_have_a_class_of_their_own(path, risk):
    change = replace(plan_of(APP, [config()], {}).changes[0], live={}, differences=())
    added = FieldDifference(path, "", Difference.FOREIGN, live="x", owners=(FieldOwner("kubectl"),))
    found = drift_risk(change, [added])
    assert found is not None
    assert (found.risk, path in found.reason) == (risk, True)
    assert drift_risk(change) is None
