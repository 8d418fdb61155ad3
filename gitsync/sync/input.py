"""The immutable input of one reconcile: the Application, what its status kept, and the commit to converge to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from gitsync.objects.application import (
    Application,
    Destination,
    GitSource,
    parse_application,
)
from gitsync.objects.holds import active_holds
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.options import Options
from gitsync.objects.record import AuditHead, Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.applied import NOTHING as NOTHING_DECLARED
from gitsync.plan.applied import Declared, LoadDeclared
from gitsync.plan.parts import Choice


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """
    The start of the analysis, since when each metric limit has been exceeded, and since when health is Degraded.

    ``failure`` is why the commit failed, where ``onDegraded`` is ``Ignore``.
    """

    commit: str
    since: datetime
    exceeded_since: Mapping[str, datetime] = field(default_factory=dict)
    failure: str = ""
    degraded_since: datetime | None = None

    @classmethod
    def from_status(cls, status: Any) -> AnalysisRun | None:
        """Return the analysis that a status keeps, None when it keeps none."""
        if not isinstance(status, dict) or "since" not in status:
            return None
        over = {str(entry["name"]): datetime.fromisoformat(str(entry["since"])) for entry in status.get("over") or ()}
        since = datetime.fromisoformat(str(status["since"]))
        degraded = datetime.fromisoformat(str(status["degradedSince"])) if status.get("degradedSince") else None
        return cls(str(status.get("commit", "")), since, over, str(status.get("verdict", "")), degraded)

    def to_status(self) -> dict[str, Any]:
        """Return what the status keeps."""
        kept: dict[str, Any] = {"commit": self.commit, "since": _text(self.since)}
        if self.exceeded_since:
            kept["over"] = [{"name": name, "since": _text(since)} for name, since in self.exceeded_since.items()]
        if self.degraded_since is not None:
            kept["degradedSince"] = _text(self.degraded_since)
        return kept | ({"verdict": self.failure} if self.failure else {})


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Locator = Callable[[Manifest, str], str]
"""Return where a field of a rendered object was written, as ``file:line``."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """A commit applied instead of a failed one; without ``to_commit`` the cluster is left unchanged."""

    to_commit: str
    bad_commit: str
    reason: str

    @classmethod
    def from_status(cls, pinned: Any) -> Rollback | None:
        """Return the rollback that a status keeps, None when it keeps none."""
        if not isinstance(pinned, dict):
            return None
        return cls(*(str(pinned.get(name, "")) for name in ("commit", "instead", "reason")))

    def to_status(self) -> dict[str, str]:
        """Return what the status keeps."""
        return {"commit": self.to_commit, "instead": self.bad_commit, "reason": self.reason}

    @property
    def message(self) -> str:
        """A one-line description for status and history."""
        done = f"rolled back to {self.to_commit[:12]}" if self.to_commit else "held"
        return f"{self.reason}: {done} until there is a newer commit than {self.bad_commit[:12]}"


@dataclass(frozen=True, slots=True)
class ObjectEvaluation:
    """
    The evaluation of an object before it is applied: one verdict for each digest of the object and its cases.

    ``object`` is the path of its ref, ``at`` when the attempt was begun or has ended. ``report`` is what the evaluation
    reported, empty while it runs. ``retry_at`` is when an inconclusive one is repeated, None where it is not.
    """

    object: str
    digest: str
    attempt: int
    at: datetime
    report: Mapping[str, Any] = field(default_factory=dict)
    retry_at: datetime | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has no verdict yet."""
        return not self.report

    @property
    def is_passed(self) -> bool:
        """Whether the object may be applied."""
        return self.report.get("result") == "Passed"

    @classmethod
    def from_status(cls, kept: Any) -> ObjectEvaluation | None:
        """Return the evaluation that ``to_status`` wrote, None for anything else."""
        if not isinstance(kept, dict) or not kept.keys() >= {"object", "digest", "attempt", "at"}:
            return None
        own = ("object", "digest", "attempt", "at", "retryAt")
        return cls(
            str(kept["object"]),
            str(kept["digest"]),
            int(kept["attempt"]),
            datetime.fromisoformat(str(kept["at"])),
            {name: value for name, value in kept.items() if name not in own},
            datetime.fromisoformat(str(kept["retryAt"])) if kept.get("retryAt") else None,
        )

    def to_status(self) -> dict[str, Any]:
        """Return what the status keeps."""
        retry = {"retryAt": _text(self.retry_at)} if self.retry_at else {}
        own = {"object": self.object, "digest": self.digest, "attempt": self.attempt, "at": _text(self.at)}
        return {**own, **self.report, **retry}


@dataclass(frozen=True, slots=True)
class SyncState:
    """
    What the status keeps from one reconcile to the next.

    ``applied`` is the commit that was applied completely, ``applied_spec_hash`` the hash of source and
    destination that it was applied for, ``followed`` and ``followed_spec_hash`` the same of the revision that
    was followed before a pin, ``requested`` the last requested sync that was carried out, ``audit`` the newest link of
    the audit about the Application after its last sync.
    """

    inventory: Inventory = field(default_factory=Inventory)
    fetched: str = ""
    applied: str = ""
    applied_spec_hash: str = ""
    followed: str = ""
    followed_spec_hash: str = ""
    last_good: str = ""
    requested: str = ""
    operation: Mapping[str, Any] = field(default_factory=dict)
    rollback: Rollback | None = None
    analysis: AnalysisRun | None = None
    audit: AuditHead | None = None
    evaluations: tuple[ObjectEvaluation, ...] = ()

    @classmethod
    def from_status(cls, status: Any) -> SyncState:
        """Read what a status keeps."""
        return cls(
            inventory=Inventory.from_status(status if isinstance(status, dict) else {}),
            fetched=str(at(status, "revision", "fetched", default="")),
            applied=str(at(status, "revision", "applied", default="")),
            applied_spec_hash=str(at(status, "revision", "appliedFor", default="")),
            followed=str(at(status, "revision", "followed", default="")),
            followed_spec_hash=str(at(status, "revision", "followedFor", default="")),
            last_good=str(at(status, "revision", "good", default="")),
            requested=str(at(status, "requestedSync", default="")),
            operation=at(status, "operation", default={}),
            rollback=Rollback.from_status(at(status, "pinned")),
            analysis=AnalysisRun.from_status(at(status, "postSync")),
            audit=AuditHead.from_json(at(status, "audit"), "the status of the Application"),
            evaluations=tuple(
                filter(None, map(ObjectEvaluation.from_status, at(status, "evaluations", default=()) or ()))
            ),
        )

    def _is_of(self, app: Application) -> bool:
        """Whether no commit was applied for another source or destination."""
        # in this order: the hash is that of the whole source
        return not self.applied_spec_hash or self.applied_spec_hash == app.target_hash

    def applied_to(self, app: Application) -> str:
        """Return the commit that was applied completely for this source and destination, empty when none was."""
        return self.applied if self._is_of(app) else ""

    def fetched_for(self, app: Application) -> str:
        """Return the commit that was fetched last, empty where another source or destination was applied since."""
        return self.fetched if self._is_of(app) else ""

    def last_of(self, app: Application) -> str:
        """Return the last commit that was applied of this revision, also after a pin; empty when none is known."""
        return self.followed if self.followed_spec_hash == app.target_hash else self.applied_to(app)

    def with_applied(self, commit: str, app: Application) -> SyncState:
        """Return the state with this commit applied completely."""
        # a revision that is the commit itself is a pin: the branch from before it is kept, to compare with when it is
        # followed again
        is_pin = commit == app.source.revision or app.source.is_fixed
        state = self.with_followed(app) if is_pin else replace(self, followed="", followed_spec_hash="")
        return replace(state, applied=commit, applied_spec_hash=app.target_hash)

    def with_followed(self, app: Application) -> SyncState:
        """Return the state with the last commit of the revision that was followed before this source."""
        # the first pin counts: a second one must not replace the branch by the commit of the first
        if self.followed or self._is_of(app):
            return self
        return replace(self, followed=self.applied, followed_spec_hash=self.applied_spec_hash)


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """Objects that a user wants to be restored to what was applied last, whatever self-heal and its windows say."""

    refs: frozenset[ObjectRef] = frozenset()
    by: str = ""

    def to_annotation(self, id: str) -> str:
        """Return the value of the annotation that passes it on; ``id`` tells it from an equal one before."""
        return orjson.dumps({"id": id, "objects": sorted(ref.path for ref in self.refs), "by": self.by}).decode()

    @classmethod
    def from_annotation(cls, text: str) -> RepairRequest:
        """Return the request that an annotation passes on; one of another form restores nothing."""
        try:
            members: dict[str, Any] = orjson.loads(text)
            return cls(frozenset(ObjectRef.from_path(str(path)) for path in members["objects"]), str(members["by"]))
        # a user who may annotate an Application can write any text
        except (ValueError, TypeError, KeyError):
            return cls()


_UNPARSED = GitSource.model_construct(repo_url="")
"""An empty URL, which no valid spec has, marks the input as unparsed; ``model_construct`` skips the validation."""
_NOWHERE = Destination()


@dataclass(frozen=True, slots=True)
class ReconcileInput:
    """What a reconcile starts from; ``requested_by`` is the user who requested a sync that is still pending."""

    app: Application
    now: datetime
    state: SyncState
    requested_by: str = ""
    repair: RepairRequest = RepairRequest()

    @classmethod
    def parse(cls, manifest: Manifest, now: datetime) -> ReconcileInput:
        """Return the input of an Application; raise InvalidInput when its spec is invalid."""
        return cls.unparsed(manifest, now).parsed(manifest)

    def parsed(self, manifest: Manifest, requested_by: str = "") -> ReconcileInput:
        """Return the input with the spec of its Application; raise InvalidInput when that is invalid."""
        app = parse_application(manifest)
        app = replace(app, holds=active_holds(app.holds, self.now)) if app.holds else app
        return replace(self, app=app, requested_by=requested_by)

    @classmethod
    def unparsed(cls, manifest: Manifest, now: datetime) -> ReconcileInput:
        """Return an input with the name of an Application, but not its spec."""
        meta = metadata_of(manifest)
        app = Application(
            name=str(meta.get("name", "")),
            namespace=str(meta.get("namespace", "")),
            uid=str(meta.get("uid", "")),
            generation=int(meta.get("generation") or 0),
            source=_UNPARSED,
            destination=_NOWHERE,
        )
        return cls(app, now, SyncState.from_status(manifest.get("status")))

    @property
    def is_requested(self) -> bool:
        """Whether a requested sync is still pending."""
        # a request in memory ends with this process; one in an annotation survives a restart
        return bool(self.requested_by) or self.app.requested_sync not in ("", self.state.requested)

    @property
    def choice(self) -> Choice | None:
        """The objects that the pending request is limited to, None where it is for all, or where there is none."""
        # one that was made in this process is for all objects, and newer than what it waits beside
        if self.requested_by or not self.is_requested or not self.app.requested_objects:
            return None
        return Choice.from_annotation(self.app.requested_objects)

    @property
    def chosen_repairs(self) -> frozenset[ObjectRef]:
        """The objects that a user wants to be restored, whatever self-heal and its windows say."""
        choice = self.choice
        return self.repair.refs | choice.refs if choice is not None else self.repair.refs

    def acknowledge_request(self) -> ReconcileInput:
        """Return the input with its requested sync carried out."""
        return replace(self, requested_by="", state=replace(self.state, requested=self.app.requested_sync))


@dataclass(frozen=True, slots=True)
class Target:
    """
    What a reconcile converges to: a commit, the objects it declares, and their options.

    ``newest`` is the id of the commit that Git has, empty when it could not be fetched, and ``fetched`` the newest one
    that changed what the Application reads. Objects are validated where ``locate`` is given. ``replaces`` is the
    applied commit where the revision was rewritten and does not contain it any more.
    """

    commit: Commit
    desired: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    options: Mapping[ObjectRef, Options] = field(default_factory=dict)
    fetched: str = ""
    newest: str = ""
    locate: Locator | None = None
    replaces: str = ""
    origin: str = ""
    """Names the commit, and those of other repositories that it reads; see ``plan.applied``."""
    # a function: the applied commit is rendered only where the state of an object is not known otherwise
    load_applied: LoadDeclared = lambda: NOTHING_DECLARED

    def with_choice(self, choice: Choice | None) -> Target:
        """Return the target where the objects that a user chose to replace may be deleted and created again."""
        if choice is None or not choice.replace or choice.revision != self.commit.id:
            return self
        forced = {ref: replace(self.options[ref], force=True) for ref in choice.refs & self.options.keys()}
        return replace(self, options={**self.options, **forced})

    @property
    def declared(self) -> Declared:
        """What the commit declares, by its origin."""
        return Declared(self.desired, self.origin)

    @property
    def hooks(self) -> frozenset[ObjectRef]:
        """The declared objects that are hooks."""
        return frozenset(ref for ref, options in self.options.items() if options.hooks)
