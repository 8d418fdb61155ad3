"""
What a plan is made of: differences, changes, risk classes, reviews, and the verdict of the gate.

A review is a link of the audit chain: the link is the review, and the database has no other copy of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.options import DEFAULT, Options
from gitsync.objects.record import AuditRecord
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User


class Action(Enum):
    """What a plan does with one object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    ADOPT = "adopt"
    PRUNE = "prune"
    RELEASE = "release"
    """Remove our marks and our ownership of its fields; the object stays."""
    HOOK = "hook"
    NOTHING = "nothing"


class Risk(Enum):
    """The class of a change, from harmless to one that waits for a person by default."""

    SAFE = "Safe"
    MODERATE = "Moderate"
    DANGEROUS = "Dangerous"

    @property
    def level(self) -> int:
        """0, 1 or 2: a higher level is never lowered by a rule."""
        return {"Safe": 0, "Moderate": 1, "Dangerous": 2}[self.value]


class Difference(Enum):
    """The kinds of difference between what Git declares and what lives."""

    CHANGED = "changed"
    """A declared value is another one in the cluster."""
    GONE = "gone"
    """A declared field is absent from the cluster."""
    EXTRA = "extra"
    """An item that Git does not declare, inside something that we own whole or applied before."""
    ORDER = "order"
    """The same items in another order."""
    FOREIGN = "foreign"
    """A field that another manager added and we never declared: shown, not drift."""
    IGNORED = "ignored"
    """A difference that the application says to ignore."""
    DEFAULTED = "defaulted"
    """A value that the API server filled in: shown, not drift."""


DRIFT = frozenset({Difference.CHANGED, Difference.GONE, Difference.EXTRA, Difference.ORDER})
"""The kinds that make an object OutOfSync."""


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """A field manager that owns a field; ``time`` is RFC 3339, empty when unknown."""

    manager: str
    operation: str = ""
    time: str = ""
    subresource: str = ""


ABSENT: Mapping[str, Any] = {"absent": True}
"""Marks an absent value in a FieldDifference; compare by identity."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """
    One field that differs.

    ``path`` is spelled as people and the API server do: ``.spec.containers[name="a"].image``; ``pointer`` is the
    JSON Pointer (RFC 6901) into the live object, or into the desired one where live has no such field. A value that
    is not there is ``ABSENT``.
    """

    path: str
    pointer: str
    kind: Difference
    # A factory, since dataclasses refuse a dict as default; it returns the one object, which is compared by identity.
    desired: Any = field(default_factory=lambda: ABSENT)
    live: Any = field(default_factory=lambda: ABSENT)
    owners: tuple[FieldOwner, ...] = ()


REPAIR_RULE: Final = "repairs"
"""The rule of the steps of repairs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a plan. Steps run by ``stage``, then ``wave``."""

    ref: ObjectRef
    action: Action
    risk: Risk = Risk.SAFE
    rule: str = ""
    """The name of the risk rule that decided the class."""
    reason: str = ""
    """Why the step has its class, and what is special about it, for users."""
    stage: int = 0
    wave: int = 0
    desired: Manifest | None = None
    """What will be applied, None for a delete and a release."""
    live: Manifest | None = None
    """What was observed, None where the object is absent."""
    repaired: Manifest | None = None
    """What the object is once its repair is done, None where it has no repair; the step is judged from this."""
    differences: tuple[FieldDifference, ...] = ()
    certain: bool = True
    """False where only a dry-run apply can tell whether the step changes anything."""
    inferred: bool = False
    """Whether it is inferred, from how the API server stored the value before, that the step changes something."""
    problem: str = ""
    """Why the API server would reject the step, which must not be tried then."""
    follows: ObjectRef | None = None
    """
    The generated object (same name with another hash suffix) that a created one replaces.

    ``differences`` are against that one then.
    """
    waits_for: ObjectRef | None = None
    """The object that has to be deleted before this one can be created."""
    managed_fields: tuple[Mapping[str, Any], ...] | None = None
    """The ``managedFields`` to write before the apply, None where every field has its right owner."""
    removed: tuple[str, ...] = ()
    """
    JSON Pointers into ``live`` of fields that others added and the step removes, which are among the differences.

    Of a release, the marks of ours that are removed.
    """
    always_asks: bool = False
    """Whether the step needs approval whatever the Application says."""
    options: Options = DEFAULT
    """Those of the desired object, of the live one for a delete."""
    is_leftover: bool = False
    """Whether it deletes what the sync of the applied commit kept for a while, which is not drift."""
    unobserved: str = ""
    """Why the live object is unknown; such a step does nothing."""
    finished: HealthStatus | None = None
    """How the object ended that its TTL has deleted, and that is not created again."""

    @property
    def is_write(self) -> bool:
        """Whether the step changes the cluster."""
        return self.action is not Action.NOTHING

    @property
    def is_repair(self) -> bool:
        """Whether the step restores what others changed."""
        return self.rule == REPAIR_RULE

    @property
    def base(self) -> Manifest | None:
        """The object that the step is judged from: the repaired one where others changed it, else the live one."""
        return self.repaired if self.repaired is not None else self.live


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync would do: every object, also the unchanged ones, in execution order."""

    application: str
    revision: str
    changes: tuple[Change, ...]
    digest: str
    """
    What an approval is bound to: it lapses when any input changes.

    The inputs are commit, steps, risk rules, desired content, and of the live objects the uid and the content that an
    update changes or a deletion loses.
    """
    risk: Risk
    """The class of the highest step."""
    explanation: str = ""
    refusals: tuple[str, ...] = ()
    """Why nothing of the plan may run, one line each."""
    authors: frozenset[str] = frozenset()
    """
    Names and e-mail addresses of authors and committers of its commits.

    They are read only where a policy does not count their approvals.
    """
    replaces: str = ""
    """The applied commit where the revision was rewritten and does not contain it any more."""
    repairs: tuple[Change, ...] = ()
    """
    The steps back to the state that was applied last, of objects that others changed.

    They are a plan of their own: neither digest nor class depends on them, and no approval covers them.
    """
    writes: tuple[Change, ...] = field(init=False, repr=False, compare=False)
    """The steps of the change that change the cluster."""

    @property
    def outstanding(self) -> tuple[Change, ...]:
        """All steps that change the cluster, the repairs first."""
        return (*self.repairs, *self.writes)

    @property
    def unobserved(self) -> Mapping[ObjectRef, str]:
        """The objects whose live state is unknown, with the reason."""
        return {step.ref: step.unobserved for step in self.changes if step.unobserved}

    def __post_init__(self) -> None:
        # A frozen dataclass has no other way to set a field that is computed from the others.
        # The attribute instead of ``is_write``: a plan has ten thousand steps, and a call for each takes as long again.
        writes = tuple([step for step in self.changes if step.action is not Action.NOTHING])
        object.__setattr__(self, "writes", writes)


@dataclass(frozen=True, slots=True)
class Review:
    """
    What a user decided about exactly one plan; an approval counts ``until`` then, a rejection as long as the plan.

    ``also`` are the other users whose approvals of it count. ``steps`` are the paths of the objects that an approval
    is limited to, empty for the whole plan.
    """

    by: User
    approves: bool
    reason: str = ""
    until: datetime | None = None
    also: tuple[User, ...] = ()
    steps: tuple[str, ...] = ()


APPROVE: Final = "approve"
REJECT: Final = "reject"


def review_link(application: str, plan: Plan, review: Review, now: datetime, message: str = "") -> AuditRecord:
    """Return the link that records the review of a plan of an Application (``namespace/name``)."""
    action = APPROVE if review.approves else REJECT
    link = AuditRecord.by_user(application, action, review.by, now, review.reason).of_plan(plan)
    until = review.until.astimezone(UTC).isoformat() if review.until else ""
    steps = {"steps": list(review.steps)} if review.steps else {}
    return replace(link, message=message, details={**link.details, "until": until, **steps})


def review_of(link: AuditRecord) -> Review:
    """Return the review that a link records."""
    until = str(link.details.get("until", ""))
    by = User(link.approver, tuple(link.details.get("groups", ())), bool(link.details.get("signedIn")))
    steps = tuple(map(str, link.details.get("steps", ())))
    expiry = datetime.fromisoformat(until) if until else None
    return Review(by, link.action == APPROVE, link.reasoning, expiry, steps=steps)


class Decision(Enum):
    """What the gate says of a plan."""

    ALLOWED = "allowed"
    HELD = "held"
    REFUSED = "refused"


class HoldReason(Enum):
    """What a plan that is held waits for; the value is the reason in its condition."""

    REJECTION = "Rejected"
    APPROVAL = "AwaitingApproval"
    WINDOW = "OutsideWindow"
    EVALUATION = "Evaluating"
    """An agent answers its cases before it is applied."""
    EVALUATION_FAILED = "EvaluationFailed"
    """An agent has not passed its cases; a person has to decide."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    The gate's decision and its reasons, one line each; ``holds`` are the kinds of those for which it is held.

    ``steps`` are the paths of the objects that an approval limits the plan to, empty for the whole plan.
    """

    decision: Decision
    reasons: tuple[str, ...] = ()
    approver: str = ""
    holds: tuple[HoldReason, ...] = ()
    steps: tuple[str, ...] = ()
