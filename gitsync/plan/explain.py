"""Explain a plan in one paragraph. This is the default reasoner: rules only, with a reproducible text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gitsync.objects.change import Action, Change, Risk

_VERBS = {
    Action.CREATE: "create",
    Action.UPDATE: "update",
    Action.REPLACE: "replace",
    Action.ADOPT: "adopt",
    Action.PRUNE: "delete",
    Action.HOOK: "run",
}
_NAMED = 3


def explain(changes: Sequence[Change]) -> str:
    """
    Return what the steps do and why the plan has its class, in one short paragraph.

    Dangerous steps are named one by one, the others are counted.
    """
    writes = [change for change in changes if change.is_write]
    if not writes:
        return f"Nothing to do: all {len(changes)} objects are as Git declares them."
    sentences = [_summary(writes)]
    for risk in (Risk.DANGEROUS, Risk.MODERATE):
        steps = [change for change in writes if change.risk is risk]
        if steps:
            sentences.append(_reasons(risk, steps))
            break
    return " ".join(sentences)


def _summary(writes: Sequence[Change]) -> str:
    counts = Counter(change.action for change in writes)
    parts = [f"{verb} {counts[action]}" for action, verb in _VERBS.items() if counts[action]]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}{' object' if len(writes) == 1 else ' objects'}."


def _reasons(risk: Risk, steps: Sequence[Change]) -> str:
    named = "; ".join(f"{change.ref}: {change.reason}" for change in steps[:_NAMED])
    rest = f"; and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return f"{risk.value} because {named}{rest}."
