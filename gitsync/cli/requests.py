"""The requests of commands: whose they are, the commits that they name, their audit, and their writes."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

from gitsync.cli.applications import annotate_push, change_application, one_application, request_sync
from gitsync.cli.comparison import ApplicationComparison, Evaluator
from gitsync.cli.data_folder import open_records
from gitsync.cli.options import ApplicationTarget
from gitsync.cluster.client import Client
from gitsync.errors import InvalidInput, Rejected
from gitsync.gate.policy import Policy
from gitsync.objects.application import parse_application
from gitsync.objects.change import Decision, Review, Verdict
from gitsync.objects.holds import hold_manager
from gitsync.objects.keys import PIN_MANAGER, PINNED_FROM, SUSPEND_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.phase import Phase
from gitsync.objects.record import AuditFilter, AuditRecord, Commit
from gitsync.objects.urls import revisions_of
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import Pin, UserRequests
from gitsync.services.revert import (
    SHORTEST_ID,
    RevertTarget,
    joined_commit_of,
    latest_commits,
    position_of,
    revert_target,
)


@dataclass(frozen=True, slots=True)
class DatabaseRecords:
    """
    The controller's database, opened for each record, where a command runs beside the controller.

    Without it, a request is made all the same: a message on standard error says that the audit has no record of it.
    A review needs it, for a review is its record.
    """

    data: Path

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append records to the audit chain, or print that there is none."""
        # read twice: an iterator would be empty for the messages below
        kept = tuple(records)
        try:
            with open_records(self.data) as database:
                database.audit(kept)
        except InvalidInput as error:
            # no database is here: any other problem, such as an invalid setting, is an error
            if error.location != "--data":
                raise
            for record in kept:
                text = f"{record.action} of {record.application} is not in the audit: {error.message}"
                print(text, file=sys.stderr)

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first."""
        with open_records(self.data) as database:
            return database.audit_records(application, limit=limit, before=before, **wanted)

    def review(self, application: str, digest: str, now: datetime) -> Review | None:
        """Return the review of a plan."""
        with open_records(self.data) as database:
            return database.review(application, digest, now)

    def keep_review(self, link: AuditRecord) -> None:
        """Store a review."""
        with open_records(self.data) as database:
            database.keep_review(link)


@dataclass(slots=True)
class ClusterWriter:
    """Writes requests into Applications; ``sync_ids`` are those of the requested syncs, which a status repeats."""

    client: Client
    sync_ids: list[str] = field(default_factory=list)

    def request_sync(self, key: str, by: str) -> bool:
        """Annotate an Application with a sync request."""
        self.sync_ids.append(request_sync(self.client, target_of(key)))
        return True

    def poll_now(self, keys: Iterable[str]) -> None:
        """Annotate Applications as a push would; without the right to do so, the controller polls by its interval."""
        for key in keys:
            try:
                annotate_push(self.client, target_of(key))
            except Rejected as error:
                if error.code != 403:
                    raise

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` and nothing else."""
        change_application(self.client, target_of(key), SUSPEND_MANAGER, spec={"suspend": suspended})
        return True

    def pin(self, key: str, pin: Pin) -> None:
        """Set the revision of an Application, and the annotation that remembers the one before."""
        # in one apply: revision and annotation must not disagree after a crash
        change_application(
            self.client,
            target_of(key),
            PIN_MANAGER,
            annotations={PINNED_FROM: pin.followed},
            spec=_revisions(pin.commits) if pin.commits else {"source": {"revision": pin.commit.id}},
        )

    def unpin(self, key: str, followed: str) -> None:
        """Set the revision that was followed; the annotation is removed, as this apply omits it."""
        revisions = revisions_of(followed)
        spec = _revisions(revisions) if revisions else {"source": {"revision": followed}}
        change_application(self.client, target_of(key), PIN_MANAGER, spec=spec)

    def write_hold(self, key: str, name: str, text: str) -> bool:
        """Set the annotation of a hold; without a text it is removed, as this apply omits it."""
        annotations = {name: text} if text else {}
        change_application(self.client, target_of(key), hold_manager(name), annotations=annotations)
        return True


def _revisions(revisions: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of a spec that set the revisions of several sources, by their names."""
    return {"sources": [{"name": name, "revision": revision} for name, revision in revisions.items()]}


def user_requests(client: Client, data: Path) -> tuple[UserRequests, ClusterWriter]:
    """Return the requests that need no policy files: the API server decides by the rights of the kubeconfig."""
    writer = ClusterWriter(client)
    return UserRequests(DatabaseRecords(data), writer, SystemClock(), lambda app: Policy()), writer


def review_requests(evaluator: Evaluator, data: Path) -> UserRequests:
    """Return the requests by the policies that a command was given; an approval of the database is not proven."""
    return UserRequests(DatabaseRecords(data), ClusterWriter(evaluator.client), SystemClock(), evaluator.policies.of)


def read_view(client: Client, target: ApplicationTarget) -> ApplicationView:
    """Return an Application without a plan; raise InvalidInput when it does not exist."""
    return view_of(one_application(client, target.namespace, target.name))


def view_of(manifest: Manifest) -> ApplicationView:
    """Return what an Application's manifest says, without a plan."""
    try:
        application = parse_application(manifest)
    except InvalidInput:  # it can be suspended nevertheless
        application = None
    meta = metadata_of(manifest)
    key = f"{meta['namespace']}/{meta['name']}"
    return ApplicationView(key, application, manifest.get("status") or {}, (), None, None, SystemClock().now())


def evaluated_view(evaluation: ApplicationComparison) -> ApplicationView:
    """Return an Application with the plan that a sync would run now."""
    status = evaluation.manifest.get("status") or {}
    verdict = evaluation.verdict
    if Phase.of(status) is Phase.REJECTED and verdict.decision is not Decision.HELD:
        # the evaluation does not know the review that holds it
        verdict = Verdict(Decision.HELD, ("the plan was rejected",))
    app = evaluation.application
    return ApplicationView(app.key, app, status, (), evaluation.plan, verdict, SystemClock().now())


def target_of(key: str) -> ApplicationTarget:
    """Return the target of an Application's key."""
    namespace, _, name = key.partition("/")
    return ApplicationTarget(name=name, namespace=namespace)


def user_name(name: str = "", option: str = "--author") -> str:
    """Return the given name, else the name of the operating system's user; raise InvalidInput when there is none."""
    if name.strip():
        return name.strip()
    try:
        return getpass.getuser()
    # a container may run as a user without an entry in the passwd file; OSError since Python 3.13
    except (KeyError, OSError) as error:
        raise InvalidInput(
            "cannot determine the current user", location=option, hint=f"give a name with {option}"
        ) from error


def audit_request(target: ApplicationTarget, action: str, by: str, reason: str) -> None:
    """Record a request that only commands make before it is made."""
    record = AuditRecord.by_user(target.key, action, User(by), SystemClock().now(), reason or f"gitsync {action}")
    DatabaseRecords(target.data).audit([record])


def commit_of_sync(manifest: Manifest, text: str) -> str:
    """Return the commit of the sync with this number in the history, else the text itself."""
    for entry in at(manifest, "status", "history", default=[]):
        if str(entry.get("id")) == text:
            return str(entry.get("revision", ""))
    return text


def find_joined_commit(manifest: Manifest, text: str) -> tuple[Commit, dict[str, str]]:
    """Return the commit of a sync of several sources, by its number or its id, and those that it joins by names."""
    return joined_commit_of(parse_application(manifest), at(manifest, "status", default={}), text)


def find_revert_target(manifest: Manifest, source: str, to: str) -> RevertTarget:
    """Return which source a revert is of, and the commit that it returns to: the number of a sync, or a commit."""
    app = parse_application(manifest)
    return revert_target(app, at(manifest, "status", default={}), source, after=commit_of_sync(manifest, to))


def find_commit(evaluator: Evaluator, manifest: Manifest, text: str, followed: str) -> Commit:
    """
    Return the commit that a text names: the number of a sync, a commit id or its prefix, a branch or a tag.

    A prefix is searched among the latest commits of ``followed``. Raise InvalidInput when there is no such commit.
    """
    app = parse_application(manifest)
    wanted = commit_of_sync(manifest, text)
    source = evaluator.source
    credentials = evaluator.secrets.credentials(app)
    if len(wanted) >= SHORTEST_ID:  # shorter ones need no fetch
        commits = latest_commits(source, app.source.model_copy(update={"revision": followed}), credentials)
        position = position_of(commits, wanted)
        if position is not None:
            return commits[position]
    named = app.source.model_copy(update={"revision": wanted})
    try:
        return source.snapshot(named, credentials, source.resolve(named, credentials)).commit
    except InvalidInput as error:
        raise InvalidInput(
            f"{text[:60]!r} does not name a commit",
            object=f"Application {app.key}",
            hint=f"give the number of a sync, a commit id (or {SHORTEST_ID} characters of it), a branch or a tag",
        ) from error
