"""
Approvals: who may give one by the roles of an Application, and when it expires.

An approval is bound to the digest of one plan. The roles (viewer, operator, approver) follow from the groups of a
user's sign-in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import Application, Approvers
from gitsync.objects.change import DRIFT, Action, Change, Plan, Review, Risk
from gitsync.objects.keys import APPLICATION
from gitsync.objects.ref import GroupKind
from gitsync.objects.user import User

ANYONE: Final = "any user"
"""The approvers where nothing names them."""


def may_operate(person: User, policy: Policy) -> bool:
    """Whether a user may request syncs, suspend, resume and revert; without named operators every user may."""
    named = (require.operators for require in policy.require)
    return all(is_one_of(person, operators) for operators in named if is_named(operators))


def may_view(person: User, policy: Policy) -> bool:
    """Whether a user may see an Application: a viewer, an operator or an approver; without named viewers every user."""
    return all(_is_any_of(person, require) for require in policy.require if is_named(require.viewers))


def _is_any_of(person: User, require: Require) -> bool:
    return any(is_one_of(person, named) for named in (require.viewers, require.operators, require.approvers))


def is_one_of(person: User, named: Approvers) -> bool:
    """Whether a user is named, or one of their groups is; a name that no sign-in proved does not count."""
    is_listed = person.name in named.users or not set(named.groups).isdisjoint(person.groups)
    return person.is_authenticated and is_listed


def is_named(named: Approvers) -> bool:
    """Whether a list names any group or user."""
    return bool(named.groups or named.users)


_OPEN = Policy()
_RBAC = "rbac.authorization.k8s.io"
_NAMESPACE = GroupKind("", "Namespace")


def needs_approval(app: Application, risk: Risk, policy: Policy = _OPEN) -> bool:
    """Whether a plan of this class needs an approval: the stricter of Application and policy decides."""
    required = (Risk(require.approval) for require in policy.require if require.approval)
    lowest = [*required, *([app.risk.approval_class] if app.risk.approval_class else [])]
    return any(risk.level >= required_from.level for required_from in lowest)


def required_class(policy: Policy) -> Risk | None:
    """Return the class from which the operator requires approvals, also of repairs; None where it requires none."""
    required = [Risk(require.approval) for require in policy.require if require.approval]
    return min(required, key=lambda risk: risk.level, default=None)


def is_privileged(app: Application, change: Change, policy: Policy) -> bool:
    """
    Whether a step needs approval whatever ``spec.risk.approval`` says.

    Cluster-scoped objects, RBAC and Applications elsewhere affect others than the users of the Application, so a
    person or a policy that lists the kind has to allow them. The namespace that a user who applied the Application
    had created is no such object.
    """
    # Before the grants: a policy that lists the kind does not approve such a step.
    if change.always_asks:
        return True
    if policy.grants(change.ref) or _changes_nothing(change):
        return False
    # Of a managed Application, authors of commits wrote the spec, so that ``createNamespace`` is not a user's decision.
    if not app.is_managed and _is_created_namespace(app, change):
        return False
    is_elsewhere = change.ref.of == APPLICATION and change.ref.namespace != app.namespace
    return not change.ref.namespace or change.ref.group == _RBAC or is_elsewhere


def _changes_nothing(change: Change) -> bool:
    """Whether a step only records that fields are ours which have their values already."""
    return change.action is Action.UPDATE and not any(item.kind in DRIFT for item in change.differences)


def _is_created_namespace(app: Application, change: Change) -> bool:
    is_own = change.ref.of == _NAMESPACE and change.ref.name == app.destination.namespace
    return is_own and app.destination.create_namespace and change.action is Action.CREATE


def may_review(app: Application, person: User, policy: Policy = _OPEN) -> bool:
    """Whether a user may approve and reject; without named approvers every user with access may."""
    needs_proof = any(require.approvers.needs_proof for require in policy.require)
    return (person.is_authenticated or not needs_proof) and all(
        is_one_of(person, named) for named in _approvers(app, policy)
    )


def is_author(person: User, plan: Plan) -> bool:
    """Whether a user is one of the plan's authors: by name, e-mail address, or the part of it before the ``@``."""
    # A sign-in often names the part before the @. A false match only asks for another approver.
    names = {name for author in plan.authors for name in (author, author.partition("@")[0])}
    return person.name.casefold() in {name.casefold() for name in names}


def may_approve(app: Application, plan: Plan, person: User, policy: Policy = _OPEN) -> bool:
    """Whether the approval of a user counts: an approver, and no author where the policy rejects those."""
    rejects_authors = any(require.approvers.not_author for require in policy.require)
    return may_review(app, person, policy) and not (rejects_authors and is_author(person, plan))


def approvers(app: Application, policy: Policy = _OPEN) -> str:
    """Return the names of the groups and users that may approve, and how many of them have to."""
    named = (", ".join((*named.groups, *named.users)) for named in _approvers(app, policy))
    who = " and also ".join(named) or ANYONE
    count = _count(policy)
    text = who if count == 1 else f"{count} users" + ("" if who == ANYONE else f" of {who}")
    rejects_authors = any(require.approvers.not_author for require in policy.require)
    return text + (", not an author of the commits" if rejects_authors else "")


def _approvers(app: Application, policy: Policy) -> Iterator[Approvers]:
    """Yield the sets of approvers that a user has to be in, each."""
    for named in (app.risk.approvers, *(require.approvers for require in policy.require)):
        if is_named(named):
            yield named


def _count(policy: Policy) -> int:
    """Return how many users have to approve a plan."""
    return max((require.approvers.count for require in policy.require), default=1)


def missing_approvals(app: Application, plan: Plan, review: Review | None, policy: Policy = _OPEN) -> int:
    """Return how many more approvals a plan needs, by users who are approvers of the Application now."""
    users = (review.by, *review.also) if review is not None and review.approves else ()
    # A set: a user counts once. Asked again now, since approvers may have changed after the approval.
    valid = {user.name for user in users if may_approve(app, plan, user, policy)}
    return max(_count(policy) - len(valid), 0)


def expires(app: Application, approved_at: datetime) -> datetime:
    """Return when an approval expires that is given at a time."""
    return approved_at + timedelta(seconds=app.risk.approval_ttl)


def approval_messages(app: Application, plan: Plan, policy: Policy = _OPEN) -> tuple[str, ...]:
    """Return why a plan needs approval, one line each; empty when it needs none."""
    # One approval covers the whole plan, privileged steps included: they need no lines of their own.
    if needs_approval(app, plan.risk, policy):
        return (approval_message(app, plan, policy),)
    privileged = [change for change in plan.writes if is_privileged(app, change, policy)]
    who = _awaited(app, policy)
    return tuple(f"{change.ref} waits for {who}, as such changes always do: {change.reason}" for change in privileged)


def approval_message(app: Application, plan: Plan, policy: Policy = _OPEN) -> str:
    """Return the message that states how many steps wait for which approvers."""
    steps = sum(change.risk is plan.risk for change in plan.writes)
    waits = "step waits" if steps == 1 else "steps wait"
    return f"{steps} {plan.risk.value.lower()} {waits} for {_awaited(app, policy)}"


def _awaited(app: Application, policy: Policy) -> str:
    """Return what a plan waits for: the users that a policy names, or the approval of any user."""
    who = approvers(app, policy)
    return "an approval" if who == ANYONE else who
