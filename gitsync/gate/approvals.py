"""Approvals: who may give one, and when it expires. An approval is bound to the digest of one plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, Approvers
from gitsync.objects.change import Change, Plan, Review, Risk
from gitsync.objects.keys import APPLICATION
from gitsync.objects.user import User

_OPEN = Policy()
_RBAC = "rbac.authorization.k8s.io"


def needs_approval(app: Application, risk: Risk, policy: Policy = _OPEN) -> bool:
    """Whether a plan of this class needs an approval: the stricter of Application and policy decides."""
    required = (Risk(require.approval) for require in policy.require if require.approval)
    lowest = [*required, *([app.risk.approval_class] if app.risk.approval_class else [])]
    return any(risk.level >= found.level for found in lowest)


def is_privileged(app: Application, change: Change, policy: Policy) -> bool:
    """
    Whether a step needs approval whatever ``spec.risk.approval`` says.

    The spec of a managed Application was written by authors of commits, so it cannot let them write cluster-scoped
    objects, RBAC or Applications elsewhere without a person. A user who applied the Application, or a policy that
    lists the kind, granted that on purpose.
    """
    if change.always_asks:
        return True
    if not app.is_managed or policy.grants(change.ref):
        return False
    is_elsewhere = change.ref.of == APPLICATION and change.ref.namespace != app.namespace
    return not change.ref.namespace or change.ref.group == _RBAC or is_elsewhere


def may_review(app: Application, person: User, policy: Policy = _OPEN) -> bool:
    """Whether a user may approve and reject; without named approvers every user with access may."""
    return all(
        person.is_authenticated and (person.name in named.users or not set(named.groups).isdisjoint(person.groups))
        for named in _approvers(app, policy)
    )


def approvers(app: Application, policy: Policy = _OPEN) -> str:
    """Return the names of the groups and users that may approve."""
    named = (", ".join((*named.groups, *named.users)) for named in _approvers(app, policy))
    return " and also ".join(named) or "an approver"


def _approvers(app: Application, policy: Policy) -> Iterator[Approvers]:
    """Yield the sets of approvers that a user has to be in, each."""
    for named in (app.risk.approvers, *(require.approvers for require in policy.require)):
        if named.groups or named.users:
            yield named


def is_valid_approval(app: Application, review: Review | None, policy: Policy = _OPEN) -> bool:
    """Whether a review is an approval by a user who is an approver of the Application now."""
    return review is not None and review.approves and may_review(app, review.by, policy)


def expires(app: Application, given: datetime) -> datetime:
    """Return when an approval expires that is given at a time."""
    return given + timedelta(seconds=app.risk.approval_ttl)


def approval_messages(app: Application, plan: Plan, policy: Policy = _OPEN) -> tuple[str, ...]:
    """Return why a plan needs approval, one line each; empty when it needs none."""
    if needs_approval(app, plan.risk, policy):
        return (approval_message(app, plan, policy),)
    privileged = [change for change in plan.writes if is_privileged(app, change, policy)]
    who = approvers(app, policy)
    return tuple(f"{change.ref} waits for {who} whatever approval says: {change.reason}" for change in privileged)


def approval_message(app: Application, plan: Plan, policy: Policy = _OPEN) -> str:
    """Return the message that states how many steps wait for which approvers."""
    steps = sum(change.risk is plan.risk for change in plan.writes)
    waits = "step waits" if steps == 1 else "steps wait"
    return f"{steps} {plan.risk.value.lower()} {waits} for {approvers(app, policy)}"
