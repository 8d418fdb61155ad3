"""What a preview showed of a commit is found again in the plan of its merge, and in no other plan."""

from __future__ import annotations

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.plan.commit_effect import commit_effect, effect_digest
from tests.plan.factories import application, config, deployment, desired_of, live_of, plan_of, ref

APP = application()
SECRET: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "b"}}
HOOK = "helm.sh/hook"
TEST: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "test-ab", "annotations": {HOOK: "test"}}}
BASE = (config("settings", a="1"), config("gone", a="1"), deployment(), SECRET)
CHANGES = {
    "an image": (config("settings", a="1"), config("gone", a="1"), deployment(image="web@sha256:2"), SECRET),
    "a deletion": (config("settings", a="1"), deployment(), SECRET),
    "a new object": (*BASE, config("new", b="2")),
    "an image beside a test": (
        *(config("settings", a="1"), config("gone", a="1"), deployment(image="web@sha256:2"), SECRET, TEST),
    ),
    "a value": (config("settings", a="2"), config("gone", a="1"), deployment(), SECRET),
}


def shown(*result: Manifest) -> str:
    return effect_digest(commit_effect(desired_of(APP, *BASE).values(), desired_of(APP, *result).values(), APP))


@pytest.mark.parametrize("result", CHANGES.values(), ids=CHANGES.keys())
def test_the_plan_of_a_merge_does_what_was_shown(result: tuple[Manifest, ...]) -> None:
    plan = plan_of(APP, list(result), live_of(APP, *BASE))
    assert plan.writes
    assert effect_digest(plan.writes) == shown(*result)


@pytest.mark.parametrize("option", [{HOOK: "test"}, {"gitsync.dev/reconcile": "disabled"}])
def test_an_object_that_no_sync_writes_has_no_effect(option: dict[str, str]) -> None:
    old, new = ({**TEST, "metadata": {"name": name, "annotations": option}} for name in ("test-ab", "test-cd"))
    assert commit_effect([old], [new]) == ()
    bad = {**TEST, "metadata": {"name": "a", "annotations": {"gitsync.dev/reconcile": "perhaps"}}}
    assert len(commit_effect([], [bad])) == 1


def test_a_plan_that_meets_drift_does_something_else() -> None:
    result = CHANGES["an image"]
    live = live_of(APP, *BASE)
    settings = ref(config("settings"))
    drifted = {**live, settings: {**live[settings], "data": {"a": "edited"}}}
    plan = plan_of(APP, list(result), drifted)
    assert effect_digest((*plan.writes, *plan.repairs)) != shown(*result)
    of_other_image = plan_of(APP, [*result[:2], deployment(image="web@sha256:3"), SECRET], live)
    assert effect_digest(of_other_image.writes) != shown(*result)
