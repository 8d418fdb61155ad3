"""What a preview showed of a commit is found again in the plan of its merge, and in no other plan."""

from __future__ import annotations

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.plan.commit_effect import commit_effect, effect_digest
from tests.plan.factories import application, config, deployment, desired_of, live_of, plan_of, ref

APP = application()
SECRET: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "b"}}
BASE = (config("settings", a="1"), config("gone", a="1"), deployment(), SECRET)
CHANGES = {
    "an image": (config("settings", a="1"), config("gone", a="1"), deployment(image="web@sha256:2"), SECRET),
    "a deletion": (config("settings", a="1"), deployment(), SECRET),
    "a new object": (*BASE, config("new", b="2")),
    "a value": (config("settings", a="2"), config("gone", a="1"), deployment(), SECRET),
}


def shown(*result: Manifest) -> str:
    return effect_digest(commit_effect(desired_of(APP, *BASE).values(), desired_of(APP, *result).values(), APP))


@pytest.mark.parametrize("result", CHANGES.values(), ids=CHANGES.keys())
def test_the_plan_of_a_merge_does_what_was_shown(result: tuple[Manifest, ...]) -> None:
    plan = plan_of(APP, list(result), live_of(APP, *BASE))
    assert plan.writes
    assert effect_digest(plan.writes) == shown(*result)


def test_a_plan_that_meets_drift_does_something_else() -> None:
    result = CHANGES["an image"]
    live = live_of(APP, *BASE)
    settings = ref(config("settings"))
    drifted = {**live, settings: {**live[settings], "data": {"a": "edited"}}}
    plan = plan_of(APP, list(result), drifted)
    assert effect_digest((*plan.writes, *plan.repairs)) != shown(*result)
    of_other_image = plan_of(APP, [*result[:2], deployment(image="web@sha256:3"), SECRET], live)
    assert effect_digest(of_other_image.writes) != shown(*result)
