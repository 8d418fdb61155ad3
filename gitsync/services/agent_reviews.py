"""Reviews of the plan of an Agent or a system that waits, as its status has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from gitsync.errors import WrongState
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Risk
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.objects.user import User
from gitsync.operator.child_reconciler import Owner
from gitsync.ports import Clock
from gitsync.services.reviews import Approval, ReviewRecords, ReviewService


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
