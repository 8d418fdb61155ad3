"""What is remembered: one SyncRecord per sync, one AuditRecord per intent and per outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from gitsync.objects.keys import GROUP
from gitsync.objects.ref import ObjectRef

if TYPE_CHECKING:  # a render process reads commits, and would load the models of the controller
    from gitsync.objects.application import Application
    from gitsync.objects.change import Plan
    from gitsync.objects.user import User


class Outcome(Enum):
    """How a sync or one write ended."""

    INTENDED = "Intended"
    SUCCEEDED = "Succeeded"
    PARTIAL = "Partial"
    FAILED = "Failed"
    HELD = "Held"
    REFUSED = "Refused"
    SUPERSEDED = "Superseded"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: full id, author, first line and body of the message, and its time (aware)."""

    id: str
    author: str = ""
    email: str = ""
    message: str = ""
    time: datetime | None = None

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


class Push(NamedTuple):
    """A push to a branch as the event of a Git server tells it: the ids before and after, and the changed paths."""

    branch: str
    before: str
    after: str
    paths: frozenset[str]


_JOINED = "Source: "


def joined_message(subject: str, commits: Mapping[str, str], urls: Mapping[str, str]) -> str:
    """Return the message of a commit that joins those of several sources, by the names of the sources."""
    lines = [f"{_JOINED}{name} {commit} {urls[name]}" for name, commit in commits.items()]
    return f"{subject}\n\n" + "".join(f"{line}\n" for line in lines)


def joined_commits(commit: Commit) -> dict[str, str]:
    """Return the commits that one joins, by the names of their sources; empty for a commit of one source."""
    lines = commit.message.partition("\n\n")[2].splitlines()
    entries = [line.removeprefix(_JOINED).split(" ") for line in lines if line.startswith(_JOINED)]
    return {entry[0]: entry[1] for entry in entries if len(entry) == 3}


@dataclass(frozen=True, slots=True)
class Step:
    """One written object in a record: ``ref`` as its path, what was done, the class, and how it ended."""

    ref: str
    action: str
    risk: str
    reason: str
    outcome: Outcome
    message: str = ""
    differences: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """
    What one sync saw, decided and did; ``id`` is 0 until saved.

    ``application`` is ``namespace/name``; ``trigger`` is one of commit, drift, manual, retry, rollback, post-sync,
    delete. ``sync`` is that of the audit records of its writes, empty for one that wrote nothing. It never contains
    values of Secrets.
    """

    application: str
    commit: Commit
    trigger: str
    started: datetime
    duration_ms: int
    outcome: Outcome
    risk: str
    digest: str
    explanation: str = ""
    message: str = ""
    steps: tuple[Step, ...] = ()
    initiator: str = "automated"
    approver: str = ""
    sync: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """
    One link of the audit chain, written before a write (Intended) and after it (its outcome).

    ``sync`` groups the records of one sync; ``hash`` covers the record and the hash before it.
    """

    application: str
    action: str
    resource: str
    outcome: Outcome
    timestamp: datetime
    sync: str
    reasoning: str = ""
    plan_steps: int = 0
    risk_level: str = ""
    duration_ms: int = 0
    commit: str = ""
    author: str = ""
    approver: str = ""
    digest: str = ""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    id: int = 0
    previous: str = ""
    hash: str = ""

    @property
    def has_typed_name(self) -> bool:
        """Whether its user typed the name, and no sign-in proved it."""
        # records of the controller have no such member
        return bool(self.approver) and self.details.get("signedIn") is False

    @classmethod
    def by_user(cls, application: str, action: str, user: User, timestamp: datetime, reason: str) -> AuditRecord:
        """Return the record of what a user did, with the groups of the sign-in and whether it proved them."""
        details: dict[str, Any] = {"groups": list(user.groups), "signedIn": user.is_authenticated}
        details |= {"token": user.token} if user.token else {}
        return cls(
            application, action, "", Outcome.SUCCEEDED, timestamp, "", reason, approver=user.name, details=details
        )

    @classmethod
    def of_application(
        cls, app: Application, action: str, outcome: Outcome, timestamp: datetime, reason: str
    ) -> AuditRecord:
        """Return the record of what the controller decided about a whole Application."""
        resource = ObjectRef(GROUP, "Application", app.namespace, app.name).path
        return cls(app.key, action, resource, outcome, timestamp, "", reason)

    def of_plan(self, plan: Plan) -> AuditRecord:
        """Return the record with what identifies a plan: its number of writes, risk class, commit and digest."""
        return replace(
            self,
            plan_steps=len(plan.writes),
            risk_level=plan.risk.value,
            commit=plan.revision,
            digest=plan.digest,
        )

    def of_commit(self, commit: Commit) -> AuditRecord:
        """Return the record with the id and the author of a commit."""
        return replace(self, commit=commit.id, author=commit.author)


@dataclass(frozen=True, slots=True)
class AuditHead:
    """Number, hash and time of a link of the audit chain, as they are kept in a place outside the database."""

    id: int
    hash: str
    time: datetime
    place: str = ""

    @classmethod
    def of(cls, link: AuditRecord, place: str = "") -> AuditHead:
        """Return the head of a chain that ends with this link."""
        return cls(link.id, link.hash, link.timestamp, place)

    @classmethod
    def from_json(cls, members: Any, place: str) -> AuditHead | None:
        """Return the head that ``to_json`` wrote, None where there is none."""
        if not isinstance(members, dict) or not members.keys() >= {"record", "hash", "time"}:
            return None
        return cls(int(members["record"]), str(members["hash"]), datetime.fromisoformat(str(members["time"])), place)

    def to_json(self) -> dict[str, Any]:
        """Return what a status or a file keeps."""
        return {"record": self.id, "hash": self.hash, "time": self.time.astimezone(UTC).isoformat()}


class AuditFilter(TypedDict, total=False):
    """What records of the audit have to be equal to; an empty text lets all pass."""

    sync: str
    action: str
    outcome: str
    resource: str
