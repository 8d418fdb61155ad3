"""Explain a plan in one paragraph. This is the default reasoner: rules only, with a reproducible text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gitsync.errors import counted
from gitsync.objects.change import Action, Change, Difference, FieldDifference, Risk

_VERBS = {
    Action.CREATE: "create",
    Action.UPDATE: "update",
    Action.REPLACE: "replace",
    Action.ADOPT: "adopt",
    Action.PRUNE: "delete",
    Action.RELEASE: "release",
    Action.HOOK: "run",
}
# steps that the paragraph names; it is the message of a condition
_NAMED = 3


def explain(changes: Sequence[Change], repairs: Sequence[Change] = ()) -> str:
    """
    Return what the steps do and why the plan has its class, in one short paragraph.

    Dangerous steps are named one by one, the others are counted. Repairs do not count for the class.
    """
    # not ``is_write``: a call for each of ten thousand steps takes longer than the comparison
    writes = [change for change in changes if change.action is not Action.NOTHING]
    restored = _restored(repairs)
    if not writes:
        if restored:
            return restored
        hidden = sum(1 for change in changes if change.unobserved)
        if hidden:
            return f"Nothing to do for {counted(len(changes) - hidden, 'object')}; the state of {hidden} is unknown."
        return "Nothing to do: every object is as Git declares it."
    sentences = [restored, _summary(writes)] if restored else [_summary(writes)]
    for risk in (Risk.DANGEROUS, Risk.MODERATE):
        steps = [change for change in writes if change.risk is risk]
        if steps:
            sentences.append(_reasons(risk, steps))
            # one class only: lower ones do not explain the class of the plan
            break
    return " ".join(sentences)


def explain_atomic_lists(differences: Iterable[FieldDifference]) -> str:
    """
    Return which lists lose items that others added, empty when there are none.

    An atomic list has one owner for all its items: Git cannot declare some and leave others to other managers.
    """
    return "; ".join(
        _lost_items(difference)
        for difference in differences
        if difference.kind is Difference.CHANGED and _has_added(difference)
    )


def _has_added(difference: FieldDifference) -> bool:
    desired = difference.desired
    live = difference.live
    if not isinstance(desired, list) or not isinstance(live, list):
        return False
    return len(live) > len(desired) and all(item in live for item in desired)


def _lost_items(difference: FieldDifference) -> str:
    added = len(difference.live) - len(difference.desired)
    by = f" that {difference.owners[0].manager} added" if difference.owners else ""
    return (
        f"{difference.path} is an atomic list, which an apply replaces as a whole: it loses {added} "
        f"item{'s' if added > 1 else ''}{by}; declare all items in Git, or list it in spec.sync.ignoreDifferences"
    )


def _restored(repairs: Sequence[Change]) -> str:
    """Return which objects are restored to what was applied, empty where none is."""
    if not repairs:
        return ""
    more = f" and {len(repairs) - 1} more" if len(repairs) > 1 else ""
    return f"Restore {repairs[0].ref}{more} to what was applied."


def _summary(writes: Sequence[Change]) -> str:
    counts = Counter(change.action for change in writes)
    # the noun belongs to the first number, since the numbers of the others may be 1
    (verb, number), *rest = [(verb, counts[action]) for action, verb in _VERBS.items() if counts[action]]
    first = f"{verb.capitalize()} {number} {'object' if number == 1 else 'objects'}"
    return ", ".join((first, *(f"{verb} {number}" for verb, number in rest))) + "."


def _reasons(risk: Risk, steps: Sequence[Change]) -> str:
    named = "; ".join(f"{change.ref}: {change.reason}" for change in steps[:_NAMED])
    rest = f"; and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return f"{risk.value} because {named}{rest}."
