"""Roles of users for an Application: viewer, operator, approver, by the groups of their sign-in."""

from __future__ import annotations

from gitsync.gate.policy import Policy
from gitsync.gate.requirements import Require
from gitsync.objects.application import Approvers
from gitsync.objects.user import User


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
