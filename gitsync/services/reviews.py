"""
Approve or reject one plan: check permissions, store the review, write the audit record.

The plan of an Agent or a system that waits is read from its status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from gitsync.errors import InvalidInput, Refused, WrongState
from gitsync.gate.approvals import approvers, expires, is_author, may_approve, may_review
from gitsync.gate.decide import rejection_message
from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Decision, HoldReason, Plan, Review, Risk, review_link
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.record import AuditRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.urls import matches_url
from gitsync.objects.user import User
from gitsync.operator.child_reconciler import Owner
from gitsync.plan.commit_effect import effect_digest
from gitsync.plan.parts import check_closed
from gitsync.ports import ApplicationView, Clock
from gitsync.ports.hosts import HostReview

# a record is read by people, and a plan may have thousands of steps
_NAMED = 20
"""Steps that the message of an audit record names."""


@dataclass(frozen=True, slots=True)
class Approval:
    """
    The approval of a plan by a user.

    ``steps`` are the paths of the objects whose steps may run, none for the whole plan. Only one that ``overrules``
    counts where the plan was rejected before.
    """

    by: User
    reason: str = ""
    overrules: bool = False
    steps: tuple[str, ...] = ()


class ReviewRecords(Protocol):
    """Where reviews are kept."""

    def review(self, application: str, digest: str, now: datetime) -> Review | None:
        """Return the newest review of a plan that has not expired, with the approvals that it adds to."""
        ...

    def keep_review(self, link: AuditRecord) -> None:
        """Store a review, which is its link of the audit chain."""
        ...


def is_held(view: ApplicationView) -> bool:
    """Tell whether the plan waits for a user or a sync window; no approval lets through what is evaluated."""
    verdict = view.verdict
    if verdict is None or verdict.decision is not Decision.HELD or view.plan is None:
        return False
    return not {HoldReason.EVALUATION, HoldReason.EVALUATION_FAILED} & set(verdict.holds)


class ReviewService:
    """
    Store reviews of plans. The newest review counts, until the plan changes.

    A rejected plan can only be approved with ``overrule``, which the audit records.
    """

    def __init__(self, records: ReviewRecords, clock: Clock, policy_of: Callable[[Application], Policy]) -> None:
        self._records = records
        self._clock = clock
        self._policy_of = policy_of

    def approve(self, app: Application, plan: Plan, approval: Approval) -> datetime:
        """
        Approve one run of the plan, or of some steps; return when that expires.

        Raise Refused where user or plan is not allowed, InvalidInput where steps depend on others.
        """
        by = approval.by
        policy = self._policy_of(app)
        # rights before the state of the plan: a user without them learns nothing of it
        _check(app, by, policy)
        if not may_approve(app, plan, by, policy):
            raise Refused(
                f"{by.name} is an author of its commits, and policy {policy.name} rejects their approval",
                object=f"Application {app.key}",
                hint=f"another user approves it: {approvers(app, policy)}",
            )
        # checked against the plan, not the request alone: a part has to include what it needs
        chosen = _chosen(app, plan, frozenset(approval.steps))
        now = self._clock.now()
        last = self._records.review(app.key, plan.digest, now)
        is_overruled = last is not None and not last.approves
        if last is not None and is_overruled and not approval.overrules:
            raise Refused(
                f"the plan was {rejection_message(last)}",
                object=f"Application {app.key}",
                hint="approve it with --overrule, or change Git",
            )
        until = expires(app, now)
        overruled = f"overrules: {rejection_message(last)}" if last is not None and is_overruled else ""
        # the audit names what was overruled
        message = "; ".join(filter(None, (overruled, _part_message(plan, chosen))))
        self._store(app, plan, Review(by, True, approval.reason, until, steps=chosen), message)
        return until

    def reject(self, app: Application, plan: Plan, by: User, reason: str) -> None:
        """Hold the plan until it changes. Raise Refused where the user may not review it."""
        # a rejection by an author of the commits is accepted: it only holds back
        _check(app, by, self._policy_of(app))
        if not reason:
            raise InvalidInput("a rejection needs a reason", object=f"Application {app.key}", hint="give a reason")
        self._store(app, plan, Review(by, False, reason), "")

    def _store(self, app: Application, plan: Plan, review: Review, message: str) -> None:
        self._records.keep_review(review_link(app.key, plan, review, self._clock.now(), message))


def _chosen(app: Application, plan: Plan, steps: frozenset[str]) -> tuple[str, ...]:
    """Return the steps of an approval in order, none for the whole plan; raise InvalidInput where they need others."""
    known = {step.ref.path: step.ref for step in plan.writes}
    unknown = sorted(steps - known.keys())
    if unknown:
        raise InvalidInput(f"the plan has no step for {unknown[0]}", object=f"Application {app.key}")
    chosen = {known[path] for path in steps}
    check_closed(plan, chosen, f"Application {app.key}")
    # all steps selected one by one are an approval of the whole plan
    is_whole = chosen >= {step.ref for step in plan.writes if step.action is not Action.HOOK}
    return () if is_whole else tuple(sorted(steps))


def _part_message(plan: Plan, chosen: Sequence[str]) -> str:
    """Return which steps an approval is limited to, empty for the whole plan."""
    names = ", ".join(str(ObjectRef.from_path(path)) for path in chosen[:_NAMED])
    more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
    return f"{len(chosen)} of {len(plan.writes)} steps: {names}{more}" if chosen else ""


def _check(app: Application, by: User, policy: Policy) -> None:
    if not by.name:
        raise InvalidInput("a review needs a name", object=f"Application {app.key}", hint="give your name")
    if not may_review(app, by, policy):
        named = approvers(app, policy)
        who = f"{by.name} is not one of {named}" if by.is_authenticated else f"{by.name!r} is not authenticated"
        raise Refused(
            f"only {named} may review this plan, and {who}",
            object=f"Application {app.key}",
            hint="sign in to the dashboard with a token of your own, or give it to the command line with --token-file",
        )


@dataclass(frozen=True, slots=True)
class ReviewedPull:
    """
    A merged pull request whose merge a plan applies, with its newest reviews at the host.

    ``host`` is the URL of the repository, ``author`` the login of who opened it, ``authors`` are those of its commits,
    and ``plan`` is what its preview showed for the Application, see ``effect_digest``.
    """

    name: str
    host: str
    head: str
    author: str
    authors: frozenset[str]
    plan: str
    reviews: tuple[HostReview, ...]


def approvals_at_host(app: Application, plan: Plan, pull: ReviewedPull, policy: Policy) -> tuple[Approval, ...]:
    """
    Return the approvals of a plan that reviews of its pull request are.

    A review counts if it approves exactly the head that was merged, its author is mapped to an approver by every policy
    and wrote none of it, and the plan does what the preview showed. Raise Refused, with the reason, where none counts.
    """
    if effect_digest(plan.writes) != pull.plan:
        raise Refused(f"the plan does other things than the preview of {pull.name} showed: the cluster differed")
    reasons = []
    approvals = []
    for review in pull.reviews:
        if not review.approves:
            continue
        reviewer = _mapped(review.login, pull.host, policy)
        reason = _why_not(app, plan, pull, review, policy)
        if reviewer is None or reason:
            reasons.append(f"the review of {review.login} does not count: {reason}")
        else:
            approvals.append(Approval(reviewer, f"approving review of {pull.name} at {pull.head[:12]}"))
    if not approvals:
        raise Refused("; ".join(reasons) or f"{pull.name} has no approving review")
    return tuple(approvals)


def has_host_reviewers(policy: Policy) -> bool:
    """Whether reviews at a Git host can count."""
    return any(require.reviewers for require in policy.require)


def _mapped(login: str, host: str, policy: Policy) -> User | None:
    """Return the user that a login is, None where not every policy that requires something names the same one."""
    users = {_user_of(login, host, require) for require in policy.require}
    return users.pop() if len(users) == 1 else None


def _user_of(login: str, host: str, require: Require) -> User | None:
    for reviewer in require.reviewers:
        is_here = matches_url(f"{reviewer.host.rstrip('/')}/*", host)
        # hosts compare logins without case, and keep the one that a user chose
        if is_here and reviewer.login.casefold() == login.casefold():
            return User(reviewer.user, reviewer.groups, is_authenticated=True)
    return None


def _why_not(app: Application, plan: Plan, pull: ReviewedPull, review: HostReview, policy: Policy) -> str:
    """Return why an approving review does not count, empty where it does."""
    reviewer = _mapped(review.login, pull.host, policy)
    if reviewer is None:
        return "the policy maps this login to no user"
    if review.commit != pull.head:
        return f"it is about {review.commit[:12] or 'an unknown commit'}, and {pull.head[:12]} was merged"
    # also where a policy lets authors approve: at the dashboard they see the plan, here only what they wrote
    authored = replace(plan, authors=plan.authors | pull.authors)
    if review.login.casefold() == pull.author.casefold() or is_author(reviewer, authored):
        return "it is of an author"
    return "" if may_approve(app, authored, reviewer, policy) else f"{reviewer.name} is not an approver"


class OwnerWriter(Protocol):
    """What makes the operator reconcile an Agent or a system again."""

    def wake_owner(self, manifest: Manifest, digest: str) -> None:
        """Let it be reconciled, whose plan of this digest a user reviewed."""
        ...


class OwnerReviews:
    """Take reviews of plans of Agents and systems, by the same rights as those of Applications."""

    def __init__(
        self,
        records: ReviewRecords,
        writer: OwnerWriter,
        clock: Clock,
        policy_of: Callable[[Application], Policy],
    ) -> None:
        self._writer = writer
        self._reviews = ReviewService(records, clock, policy_of)

    def approve(self, manifest: Manifest, digest: str, approval: Approval) -> datetime:
        """Let exactly the plan of a digest run once; return until when, raise WrongState or Refused."""
        app, plan = _reviewable(manifest, digest)
        until = self._reviews.approve(app, plan, approval)
        # the review first: without it a reconcile finds nothing new
        self._writer.wake_owner(manifest, digest)
        return until

    def reject(self, manifest: Manifest, digest: str, by: User, reason: str) -> None:
        """Hold exactly the plan of a digest until it changes; raise as ``approve`` does."""
        app, plan = _reviewable(manifest, digest)
        self._reviews.reject(app, plan, by, reason)
        self._writer.wake_owner(manifest, digest)


def held_plan(manifest: Manifest) -> tuple[Application, Plan]:
    """
    Return the owner as the gate sees it, and its held plan without steps; raise WrongState where none waits.

    A status can be wrong or forged: the operator compares the digest of a review with that of the plan that it makes
    itself, and the reviewer with the policy.
    """
    ref = ref_of(manifest)
    plan = at(manifest, "status", "plan", default={})
    digest = str(plan.get("digest", ""))
    if not digest:
        raise WrongState("no plan waits for approval", object=f"{ref}", hint="see its status.conditions")
    generation = int(metadata_of(manifest).get("generation", 0))
    owner = Owner(ref, uid_of(manifest), generation)
    # without a class it is treated as the worst
    risk = Risk(str(plan.get("class", Risk.DANGEROUS.value)))
    app = owner.application
    # the spec of an Agent has no commit here: its generation is the revision
    return app, Plan(application=app.key, revision=f"generation-{generation}", changes=(), digest=digest, risk=risk)


def _reviewable(manifest: Manifest, digest: str) -> tuple[Application, Plan]:
    app, plan = held_plan(manifest)
    # as for an Application: consent to what was shown does not extend to another plan
    if plan.digest != digest:
        raise WrongState(
            "the plan changed since it was shown, so nothing was decided",
            object=str(ref_of(manifest)),
            hint="review the new one",
        )
    return app, plan
