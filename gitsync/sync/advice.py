"""Advice: a reasoner's comment on a plan. It may raise the class; it lowers none, and adds and removes no step."""

from __future__ import annotations

from dataclasses import replace

from gitsync.errors import InvalidInput
from gitsync.objects.change import Change, Plan
from gitsync.ports import Advice, Cluster, LiveCache, Reasoner
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.credentials import reasoner_key
from gitsync.sync.reconcile import Reconcile

RULE = "reasoner"
_POLL = 0.3


class AdviceGate:
    """Have plans commented on, where the application wants it, before the gate decides."""

    def __init__(self, reasoner: Reasoner | None, cluster: Cluster, live: LiveCache) -> None:
        self._reasoner = reasoner
        self._cluster = cluster
        self._live = live

    def is_ready(self, run: Reconcile, cache: ReconcileCache) -> bool:
        """
        Give the turn its plan with the advice in it; False while that is on its way, and nothing may run before.

        A sync under way is not discussed any more: what is left of it was commented on at its beginning.
        """
        plan = run.plan
        assert plan is not None
        if self._reasoner is None or run.app.openai is None or cache.operation is not None or not plan.writes:
            return True
        try:
            key = reasoner_key(run.app, self._cluster, self._live)
        except InvalidInput as error:
            run.plan = with_advice(plan, Advice(f"(Explained by rules alone: {error}.)"))
            return True
        advice = self._reasoner.advise(run.app, plan, key)
        if advice is None:
            run.message = f"waits for {run.app.openai.model} to comment on the plan"
            run.requeue_in(_POLL)
            return False
        run.plan = with_advice(plan, advice)
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
