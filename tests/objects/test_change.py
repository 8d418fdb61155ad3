from __future__ import annotations

from dataclasses import replace

from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.ref import ObjectRef

A, B = (Change(ObjectRef("", "ConfigMap", "shop", name), Action.UPDATE) for name in "ab")


def test_the_writes_of_a_plan_are_listed_once() -> None:
    unchanged = replace(B, action=Action.NOTHING)
    plan = Plan("gitsync/shop", "c1", (A, unchanged), "d", Risk.SAFE)
    assert plan.writes == (A,)
    assert plan.writes is plan.writes, "each audit record of a sync names their number"
    assert replace(plan, changes=(A, B)).writes == (A, B)
    assert plan == replace(plan)
