"""Ask the reasoner for advice on a plan. Advice may raise the risk; it never lowers it and never changes a step."""

from __future__ import annotations

from dataclasses import replace

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Plan
from gitsync.ports import Advice, Cluster, LiveCache, Reasoner
from gitsync.sync.credentials import reasoner_key

RULE = "reasoner"


class AdviceGate:
    """Ask the reasoner for advice on a plan before the gate decides."""

    def __init__(self, reasoner: Reasoner | None, cluster: Cluster, live: LiveCache) -> None:
        self._reasoner = reasoner
        self._cluster = cluster
        self._live = live

    def advised(self, app: Application, plan: Plan) -> Plan | None:
        """
        Return the plan with the reasoner's advice, None while the answer is pending and nothing may run.

        Without a reasoner the plan is returned unchanged.
        """
        if self._reasoner is None or app.openai is None or not plan.writes:
            return plan
        try:
            key = reasoner_key(app, self._cluster, self._live)
        except InvalidInput as error:
            return with_advice(plan, Advice(f"(Explained by rules alone: {error}.)"))
        advice = self._reasoner.advise(app, plan, key)
        return with_advice(plan, advice) if advice is not None else None


def with_advice(plan: Plan, advice: Advice) -> Plan:
    """Return the plan with the advice; its most severe steps, and so the plan, have at least the advised risk."""
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
