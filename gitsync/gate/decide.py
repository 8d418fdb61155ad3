"""
Decide whether a plan may run now, and whether repairs may.

Repairs restore what was permitted before, so that no approval is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.approvals import approval_messages, approvers, may_approve, may_review, missing_approvals
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, Window
from gitsync.objects.change import Action, Decision, HoldReason, Plan, Review, Verdict


class _Waits(NamedTuple):
    """Why a plan needs approval, and which window blocks it."""

    approval: tuple[str, ...]
    window: str = ""


def decide(
    plan: Plan,
    app: Application,
    policy: Policy,
    review: Review | None,
    now: datetime,
    *,
    manual: bool = False,
    violations: Iterable[str] = (),
    whole: Plan | None = None,
) -> Verdict:
    """
    Return whether a plan may run: refused, held (for a person or a window), or allowed.

    ``review`` is the approval or rejection of exactly this plan. ``violations`` are those of policy, schemas and
    manifest checks; any of them refuses the whole plan before its first write. ``manual``: a user requested this
    sync. Of a part that a user chose, ``whole`` is the plan that it is of: by its deletions a part that deletes
    something is judged, since several parts would pass a limit otherwise.
    """
    refusals = (*violations, *plan.refusals)
    if refusals:
        return Verdict(Decision.REFUSED, refusals)
    # Before read-only and windows: an Application in sync is not held by them.
    if not plan.writes:
        return Verdict(Decision.ALLOWED)
    if policy.read_only:
        return Verdict(Decision.REFUSED, (_read_only(policy),))
    try:
        closed = _closed_window(app, policy, now, manual=manual)
    # It could be a Deny window: nothing runs until it can be read.
    except InvalidInput as error:
        return Verdict(Decision.REFUSED, (str(error),))
    asked = approval_messages(app, plan, policy)
    deleting = whole if whole is not None and any(step.action in _DELETES for step in plan.writes) else plan
    waits = tuple(reason for reason in (_rewritten(plan), mass_deletion(deleting, app, policy), *asked) if reason)
    return _verdict(app, plan, policy, review, _Waits(waits, closed))


def decide_deletion(plan: Plan, app: Application, review: Review | None, policy: Policy) -> Verdict:
    """
    Return whether all objects of a plan may be deleted: those of an Application that is deleted, or data of an Agent.

    A user requested that, so neither deletion limits nor windows apply; steps of a class that needs approval, such as
    deleting a volume, still wait for one.
    """
    if policy.read_only and plan.writes:
        return Verdict(Decision.REFUSED, (_read_only(policy),))
    # of the steps alone: by the number of deletions a plan is dangerous without a step that could be reviewed
    risk = max((change.risk for change in plan.writes), key=lambda step: step.level, default=plan.risk)
    plan = replace(plan, risk=risk)
    return _verdict(app, plan, policy, review, _Waits(tuple(approval_messages(app, plan, policy))))


def _closed_window(app: Application, policy: Policy, now: datetime, *, manual: bool) -> str:
    """Return why the windows of the Application or of its policies do not allow a sync, empty when they do."""
    state = windows.state(app.sync.windows, now, manual=manual)
    if not state.allowed:
        return state.reason
    states = (windows.state(required, now, manual=manual) for required in policy.windows)
    return next((f"{state.reason}, by policy {policy.name}" for state in states if not state.allowed), "")


def _rewritten(plan: Plan) -> str:
    """Return why the plan of a rewritten revision needs approval, empty for any other."""
    if not plan.replaces:
        return ""
    return (
        f"non-fast-forward: commit {plan.revision[:12]} does not contain the applied commit {plan.replaces[:12]}; "
        "approve this plan if the revision was rewritten intentionally"
    )


def _read_only(policy: Policy) -> str:
    return f"policy {policy.name} is read-only (require.readOnly), so nothing is written"


def _verdict(app: Application, plan: Plan, policy: Policy, review: Review | None, waits: _Waits) -> Verdict:
    """Return the verdict; a rejection holds any plan until an approver approves it."""
    approval_reasons, window_reason = waits
    held = []
    # First, and without a need for approval: a rejection holds also a plan that would run by itself.
    if review is not None and not review.approves:
        held.append((HoldReason.REJECTION, rejection_message(review)))
    elif approval_reasons and (missing := missing_approvals(app, plan, review, policy)):
        held += [(HoldReason.APPROVAL, text) for text in _approved_so_far(app, plan, policy, review, missing)]
        held += [(HoldReason.APPROVAL, reason) for reason in approval_reasons]
    if window_reason:
        held.append((HoldReason.WINDOW, window_reason))
    if held:
        return Verdict(
            Decision.HELD, tuple(reason for _, reason in held), holds=tuple(dict.fromkeys(hold for hold, _ in held))
        )
    users = (review.by, *review.also) if approval_reasons and review is not None else ()
    # A dict keeps the order of the approvals for the record.
    counted = dict.fromkeys(user.name for user in users if may_approve(app, plan, user, policy))
    # A limit to steps counts only with an approval that counts: without need of one, the whole plan runs.
    steps = review.steps if counted and review is not None else ()
    return Verdict(Decision.ALLOWED, approval_reasons, ", ".join(counted), steps=steps)


def _approved_so_far(
    app: Application, plan: Plan, policy: Policy, review: Review | None, missing: int
) -> Iterator[str]:
    """Yield what the approvals so far lack: an approver, a user who is not an author, or further users."""
    for user in (review.by, *review.also) if review is not None else ():
        if not may_review(app, user, policy):
            yield f"{user.name} approved it, but is not an approver ({approvers(app, policy)})"
        elif not may_approve(app, plan, user, policy):
            yield f"{user.name} approved it, but is an author of its commits"
        else:
            yield f"{user.name} approved it, {missing} more {'approval is' if missing == 1 else 'approvals are'} needed"


def rejection_message(review: Review) -> str:
    """Return the message that names the reviewer who rejected a plan, and the reason."""
    return f"rejected by {review.by.name}" + (f": {review.reason}" if review.reason else "")


# a replace deletes the object before it creates it
_DELETES = (Action.PRUNE, Action.REPLACE)


def mass_deletion(plan: Plan, app: Application, policy: Policy) -> str:
    """
    Return why a plan that deletes too many objects needs approval; empty when it does not.

    An empty render always waits. Objects that are replaced by others of their kind, as a ConfigMap under a new name
    is, do not count against the share.
    """
    prunes = Counter(change.ref.of for change in plan.changes if change.action is Action.PRUNE)
    creates = Counter(change.ref.of for change in plan.changes if change.action is Action.CREATE)
    deletes = sum(change.action in _DELETES for change in plan.changes)
    held = sum(change.live is not None for change in plan.changes)
    counted = f"would delete {deletes} of {held} objects"
    # Nearly always a wrong path or a broken overlay, also where only one object would be deleted.
    if prunes and not any(change.desired is not None for change in plan.changes):
        return f"{counted}, because the render is empty; approve this plan if this is intended"
    if deletes > app.risk.max_deletes:
        return f"{counted}, more than maxDeletes ({app.risk.max_deletes}); approve this plan if this is intended"
    # Per kind: a created ConfigMap does not make up for a deleted Deployment. Counter subtraction drops negatives.
    lost = (prunes - creates).total()
    # One deleted object of an application with few is over any share, and is an everyday change.
    if lost > 1 and lost > policy.max_prune_share * held:
        return f"{counted}, more than {policy.max_prune_share:.0%}; approve this plan if this is intended"
    return ""


def repair_hold(app: Application, policy: Policy, now: datetime, *, is_sync: bool = False) -> str:
    """
    Return why nothing is repaired now, empty where it may be.

    ``is_sync``: a sync runs anyway, or a user requested one. An Application that is suspended is only observed.
    """
    if app.is_deleted:
        return "the Application is being deleted"
    if app.suspend:
        return "spec.suspend is true"
    # Before ``is_sync``: also a sync that a user requests writes nothing then.
    if policy.read_only:
        return f"policy {policy.name} is read-only (require.readOnly), so nothing is written"
    # Self-heal and windows are about repairs that no one requested.
    if is_sync:
        return ""
    if not app.sync.self_heal.enabled:
        return "self-heal is off (spec.sync.selfHeal)"
    try:
        return _window_against_repairs(app, policy, now)
    except InvalidInput:
        return ""  # a window that is not valid stops commits, and the gate reports it


def _window_against_repairs(app: Application, policy: Policy, now: datetime) -> str:
    """Return the window that stops repairs too, empty where none does."""
    own = app.sync.windows if app.sync.self_heal.during_windows else _all_stopping(app.sync.windows)
    states = (windows.state(_stopping(required), now) for required in (own, *policy.windows))
    return next((f"{state.reason}, which stops self-heal too" for state in states if not state.allowed), "")


def _all_stopping(required: Iterable[Window]) -> tuple[Window, ...]:
    return tuple(window.model_copy(update={"self_heal": False}) for window in required)


def _stopping(required: Sequence[Window]) -> list[Window]:
    """Return the windows that repairs obey: an Allow window counts where one of them stops self-heal outside."""
    has_allow = any(window.kind == "Allow" and not window.self_heal for window in required)
    return [window for window in required if (has_allow if window.kind == "Allow" else not window.self_heal)]
