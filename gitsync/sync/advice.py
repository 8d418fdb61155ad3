"""Advice: a reasoner's comment on a plan. It may raise the class; it lowers none, and adds and removes no step."""

from __future__ import annotations

from dataclasses import replace

from gitsync.errors import InvalidInput
from gitsync.objects.change import Change, Plan
from gitsync.ports import Advice, Cluster, Live, Reasoner
from gitsync.sync.cache import Memory
from gitsync.sync.credentials import reasoner_key
from gitsync.sync.reconcile import Turn

RULE = "reasoner"
_LOOK = 0.3


class Advising:
    """Have plans commented on, where the application wants it, before the gate decides."""

    def __init__(self, reasoner: Reasoner | None, cluster: Cluster, live: Live) -> None:
        self._reasoner = reasoner
        self._cluster = cluster
        self._live = live

    def is_heard(self, turn: Turn, memory: Memory) -> bool:
        """
        Give the turn its plan with the advice in it; False while that is on its way, and nothing may run before.

        A sync under way is not discussed any more: what is left of it was commented on at its beginning.
        """
        plan = turn.plan
        assert plan is not None
        if self._reasoner is None or turn.app.openai is None or memory.operation is not None or not plan.writes:
            return True
        try:
            key = reasoner_key(turn.app, self._cluster, self._live)
        except InvalidInput as error:
            turn.plan = with_advice(plan, Advice(f"(Explained by rules alone: {error}.)"))
            return True
        advice = self._reasoner.advise(turn.app, plan, key)
        if advice is None:
            turn.message = f"waits for {turn.app.openai.model} to comment on the plan"
            turn.wake_in(_LOOK)
            return False
        turn.plan = with_advice(plan, advice)
        return True


def with_advice(plan: Plan, advice: Advice) -> Plan:
    """Return the plan with the advice; its most severe steps, and so the plan, are of at least the advised class."""
    explanation = f"{plan.explanation} {advice.explanation}".strip()
    if advice.risk.level <= plan.risk.level:
        return replace(plan, explanation=explanation)

    def raised(change: Change) -> Change:
        if not change.is_write or change.risk is not worst:
            return change
        return replace(change, risk=advice.risk, rule=RULE, reason=f"the reasoner: {advice.reason}")

    worst = max((change.risk for change in plan.writes), key=lambda risk: risk.level)
    changes = tuple(raised(change) for change in plan.changes)
    return replace(plan, changes=changes, risk=advice.risk, explanation=explanation)
