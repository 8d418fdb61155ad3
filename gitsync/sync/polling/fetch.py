"""Fetch the commit that an Application follows, at its own polls or when the watch of its branch reports one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import random

from gitsync.errors import (
    GitsyncError,
    InvalidInput,
    MissingRevision,
    Refused,
    SourceThrottled,
    SourceUnavailable,
    detached,
)
from gitsync.objects.application import Application, GitSource, apps_of_parts
from gitsync.objects.record import Commit, joined_commits
from gitsync.objects.signers import Signer, Trust
from gitsync.objects.urls import is_artifact
from gitsync.ports import CREDENTIALS_SECRET, Clock, Credentials, Snapshot, Source, SourceRevision
from gitsync.sync.cache import GitCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.input import ReconcileInput
from gitsync.sync.polling.git_watcher import PUSH_DEBOUNCE, GitWatcher, Query

Verify = Callable[[SourceRevision, Trust], object]
"""Raise Refused unless a revision is signed by one of each set of signers."""

_NOW = float("-inf")
_RETRY = 30.0
"""Seconds until the first retry of a failed poll; the delay doubles up to the interval."""
_FETCH_REQUESTS = 5
"""Requests of a poll with a fetch; one that fails for long is repeated that much less often."""
_SHORTEST_WAIT = 0.05
_LONGEST_WAIT = 3600.0
"""Seconds for which a Git host can stop the polls at most, whatever delay it asks for."""


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """How commits are verified; ``signers_of`` returns the signers that the policies of an Application require."""

    verify: Verify
    signers_of: Callable[[Application], Trust] = lambda app: ()


@dataclass(frozen=True, slots=True)
class Polled:
    """
    The result of the last poll: the last known commit id, and why the last request failed.

    ``requeue_after`` is the number of seconds until the next poll.
    """

    commit: str
    error: GitsyncError | None
    requeue_after: float
    query: Query
    is_due: bool = False
    """Whether the query has to be answered first, because the reconcile does not wait for Git servers itself."""


class Fetcher:
    """
    Poll the Git server when the interval has elapsed or a user requests it, and cache the answer until then.

    Rotated credentials and trusted keys take effect at the next reconcile.
    """

    def __init__(
        self,
        source: Source,
        secrets: ApplicationSecrets,
        signatures: SignatureCheck,
        clock: Clock,
        *,
        random: Callable[[], float] = random,
    ) -> None:
        self._source = source
        self._secrets = secrets
        self._signatures = signatures
        self._clock = clock
        self._random = random

    def poll(self, inputs: ReconcileInput, cache: GitCache, *, waits: bool = True) -> Polled:
        """
        Resolve the revision to a commit id, from the cache while no poll is due.

        Without ``waits`` no server is asked: the result reports which query is due, and a later call takes its answer
        from the cache. A failure is reported beside the last known commit; ``checkout`` raises it where that one cannot
        be used.
        """
        source = inputs.app.source
        requested = inputs.app.requested_sync
        # before anything is asked: a URL that is not allowed must never reach a server
        self._source.check(source)
        if cache.source != source:
            cache.source = source
            # the commit of another repository or branch must not be used, not even while the new one does not answer
            cache.commit = ""
            cache.fetched = None
            cache.next_poll = _NOW
            cache.not_before = _NOW
            cache.retry_delay = 0.0
        now = self._clock.monotonic()
        if requested != cache.polled_request:
            cache.notified_at = now
            cache.polled_request = requested
        credentials = self._secrets.credentials(inputs.app)
        # rotated credentials may repair a poll that failed; the interval would hide that for minutes
        if credentials != cache.credentials:
            cache.credentials = credentials
            cache.next_poll = _NOW
            cache.not_before = _NOW
        if cache.answer is not None and not cache.answer.is_of(source):
            cache.answer = None  # to a query from before the Application named another branch
        wait = _seconds_to_poll(inputs, cache, now) if cache.answer is None else 0.0
        is_due = wait <= 0 and cache.answer is None and not waits
        if wait <= 0 and not is_due:
            self._poll(inputs, cache, now)
            wait = cache.next_poll - now
        since = now - _max_age(inputs, cache, now)
        is_awaited = cache.commit or inputs.is_requested or cache.notified_at is not None
        query = Query(inputs.app, credentials, since, cache, "" if is_awaited else inputs.state.fetched_for(inputs.app))
        return Polled(cache.commit, cache.poll_error, max(wait, _SHORTEST_WAIT), query, is_due)

    def checkout(self, inputs: ReconcileInput, cache: GitCache) -> Commit:
        """
        Return the polled commit; raise Refused when it is not signed or not a descendant of the applied one.

        A requested sync, and one that a crash interrupted, get a commit that does not contain the applied one: its plan
        waits for an approval (``replaced``).

        Raise the error of the last poll where it left no commit to use: SourceUnavailable is to be retried at the next
        poll, InvalidInput says that the revision does not exist.
        """
        error = cache.poll_error
        # an unfetched commit has no files; a revision that does not exist makes the old commit the wrong one
        if error is not None and (not cache.commit or cache.is_unfetched or isinstance(error, InvalidInput)):
            raise self._until_next_poll(detached(error), cache)
        trusted = self._trusted_of_all(inputs.app)
        # also when the signers changed: a commit is not trusted any more once its key is removed
        if cache.fetched is None or cache.fetched.id != cache.commit or cache.trusted != trusted:
            snapshot = self._fetch(inputs.app, cache)
            if any(trusted):
                self._verify(inputs, cache, snapshot, trusted)
            cache.fetched = snapshot.commit
            cache.trusted = trusted
        # only here: a poll whose fetch fails is a failure too
        if error is None:
            cache.retry_delay = 0.0
        if not inputs.is_requested and inputs.state.operation.get("commit") != cache.commit:
            self._hold_rewritten(inputs, cache)
        return cache.fetched

    def replaced(self, inputs: ReconcileInput, cache: GitCache, commit: str) -> str:
        """Return the applied commit where this is the polled one and, as the revision was rewritten, lacks it."""
        source = inputs.app.source
        last_applied = inputs.state.last_of(inputs.app)
        after = cache.commit
        # another commit than the polled one is an older one that is applied again
        if not last_applied or not commit or commit != after or last_applied == after:
            return ""
        if cache.fast_forward[:2] != (last_applied, after):
            cache.fast_forward = (last_applied, after, self._source.is_forward(source, last_applied, after))
        return "" if cache.fast_forward[2] else last_applied

    def changed_paths(self, app: Application, earlier: str, later: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits; None when that is not known."""
        return self._source.changed_paths(app.source, earlier, later)

    def snapshot(self, app: Application, cache: GitCache, commit: str) -> Snapshot:
        """Return the files of a commit; the last snapshot is cached until it is rendered."""
        if cache.snapshot is None or cache.snapshot.commit.id != commit:
            cache.snapshot = self._source.snapshot(
                app.source, self._secrets.credentials(app), commit, max_age=cache.max_age
            )
        return cache.snapshot

    def _fetch(self, app: Application, cache: GitCache) -> Snapshot:
        """Return the files of the polled commit; a failure is retried at the next poll, which follows sooner."""
        try:
            return self.snapshot(app, cache, cache.commit)
        except InvalidInput as error:
            cache.is_unfetched = True
            cache.poll_error = detached(error)
            raise
        except SourceUnavailable as error:
            cache.is_unfetched = True
            self._back_off(error, cache, app)
            self._until_next_poll(error, cache)
            raise

    def _hold_rewritten(self, inputs: ReconcileInput, cache: GitCache) -> None:
        """Raise Refused when the revision was rewritten: the applied commit is kept until a user requests a sync."""
        replaced = self.replaced(inputs, cache, cache.commit)
        if replaced:
            raise Refused(
                f"non-fast-forward: {inputs.app.source.revision} was moved to {cache.commit[:12]}, which does not "
                f"contain the applied commit {replaced[:12]}; it is held, and {inputs.state.applied[:12]} "
                "stays applied",
                location="spec.source.revision",
                hint="request a sync to plan it; that plan waits for an approval",
            )

    def _poll(self, inputs: ReconcileInput, cache: GitCache, now: float) -> None:
        source = inputs.app.source
        interval = inputs.app.sync.interval
        # Applications of one repository share a poll: a recent answer, or one since the notification, is as good
        cache.max_age = _max_age(inputs, cache, now)
        # before the query: a notification that arrives meanwhile must cause another poll
        cache.notified_at = None
        cache.last_poll = now
        cache.is_unfetched = False
        # up to a tenth earlier than the interval, so that Applications that started together do not poll together
        cache.next_poll = now + interval * (0.9 + 0.1 * self._random())
        try:
            cache.commit = self._answer(source, cache)
            cache.poll_error = None
            cache.not_before = _NOW
        except MissingRevision as error:  # a push may create it at any moment
            self._poll_sooner(cache, inputs.app)
            cache.poll_error = detached(error)
        except InvalidInput as error:
            cache.poll_error = detached(error)
        except SourceUnavailable as error:
            self._back_off(error, cache, inputs.app)
            # after a restart the cache is empty: the commit in the status is kept up while the server is away
            cache.commit = cache.commit or inputs.state.fetched_for(inputs.app)
        except Exception:
            cache.next_poll = _NOW  # a defect says nothing about the source: the next reconcile polls again
            raise

    def _answer(self, source: GitSource, cache: GitCache) -> str:
        """Return the commit by the answer that is in the cache, else by a query."""
        answer = cache.answer
        cache.answer = None
        # once more: the answer to an earlier query may have arrived since
        if answer is not None and answer.is_of(source):
            if isinstance(answer.result, GitsyncError):
                raise detached(answer.result)
            return answer.result
        return self._source.resolve(source, cache.credentials, max_age=cache.max_age)

    def _back_off(self, error: SourceUnavailable, cache: GitCache, app: Application) -> None:
        self._poll_sooner(cache, app)
        if error.retry_after is not None:
            cache.not_before = self._clock.monotonic() + min(error.retry_after, _LONGEST_WAIT)
            cache.next_poll = max(cache.next_poll, cache.not_before)
        # the source does not know the name of the Secret
        if app.source.credentials_secret:
            error.hint = error.hint.replace(
                CREDENTIALS_SECRET, f"Secret {app.namespace}/{app.source.credentials_secret}"
            )
        if isinstance(error, SourceThrottled):
            error.hint += f"; the next attempt follows in {cache.next_poll - self._clock.monotonic():.0f} s"
        cache.poll_error = detached(error)

    def _poll_sooner(self, cache: GitCache, app: Application) -> None:
        """Set the time of the next poll after a failed one, with a delay that grows up to the interval."""
        cache.retry_delay = min(max(_RETRY, 2 * cache.retry_delay), app.sync.interval)
        cache.next_poll = self._clock.monotonic() + cache.retry_delay

    def _until_next_poll(self, error: GitsyncError, cache: GitCache) -> GitsyncError:
        """Return the error of a poll to raise it, with the seconds until the next poll."""
        if isinstance(error, SourceUnavailable):
            error.retry_after = max(cache.next_poll - self._clock.monotonic(), _SHORTEST_WAIT)
        return error

    def _verify(self, inputs: ReconcileInput, cache: GitCache, snapshot: Snapshot, trusted: Sequence[Trust]) -> None:
        """Raise Refused unless the commit is signed, or that of each of several sources as its settings require."""
        app = inputs.app
        since = inputs.state.last_of(app)
        if not snapshot.parts:
            revision = self._revision(
                app.source,
                cache.credentials,
                SourceRevision(snapshot.git_dir, cache.commit, app.source.path, since),
                trusted[0],
            )
            self._signatures.verify(revision, trusted[0])
            return
        old_commits = self._joined_before(app, since)
        for part, trust, credentials in zip(snapshot.parts, trusted, cache.credentials.parts, strict=True):
            if trust:
                old = old_commits.get(part.source.name, "")
                # of all files: others may use each of them as values
                revision = SourceRevision(part.git_dir, part.commit, "", old)
                self._signatures.verify(self._revision(part.source, credentials, revision, trust), trust)

    def _joined_before(self, app: Application, commit: str) -> Mapping[str, str]:
        """Return what the last commit of several sources joined, nothing where it is not here any more."""
        if not commit:
            return {}
        with suppress(SourceUnavailable):  # the newest commit of each source is verified then
            return joined_commits(self._source.commits(app.source, commit, limit=1)[0])
        return {}

    def _trusted_of_all(self, app: Application) -> tuple[Trust, ...]:
        """Return who has to sign the commits of each source."""
        return tuple(map(self._trusted, apps_of_parts(app)))

    def _trusted(self, app: Application) -> Trust:
        """Return who has to sign: the keys that the Application names, and the signers of its policies."""
        required = self._signatures.signers_of(app)
        if app.source.verify.mode != "SignedCommits":
            return required
        # a Secret without keys: nothing is signed by an empty key
        keys = self._secrets.signer_keys(app) or ("",)
        return ((Signer(keys=keys),), *required)

    def _revision(
        self, source: GitSource, credentials: Credentials, revision: SourceRevision, trusted: Trust
    ) -> SourceRevision:
        """Return what is verified; with the tag only where one of the signers may sign tags."""
        if is_artifact(source.repo_url):
            return replace(revision, digest=self._source.fetch_signatures(source, credentials, revision.commit))
        has_taggers = any(signer.tags for signers in trusted for signer in signers)
        return (
            replace(revision, tag=self._source.tag(source, credentials, revision.commit)) if has_taggers else revision
        )


def _max_age(inputs: ReconcileInput, cache: GitCache, now: float) -> float:
    """
    Return how many seconds old an answer may be: half an interval, or as old as the notification of a push.

    A fetch that fails for long is repeated less often, since it makes more requests than a poll.
    """
    if cache.notified_at is not None:
        return max(now - cache.notified_at, 0.0)
    interval = inputs.app.sync.interval
    return interval / 2 * (_FETCH_REQUESTS if cache.is_unfetched and cache.retry_delay >= interval else 1)


def _seconds_to_poll(inputs: ReconcileInput, cache: GitCache, now: float) -> float:
    """Return the seconds until a poll is due; a push soon after the last poll is debounced, a user request is not."""
    due = min(cache.next_poll, cache.last_poll + inputs.app.sync.interval)  # the interval may be shorter by now
    if cache.notified_at is not None:
        if inputs.is_requested:
            return 0.0
        due = min(due, cache.last_poll + PUSH_DEBOUNCE)
    return max(due, cache.not_before) - now


class QueryDue(Exception):
    """Git has to answer before the reconcile can continue; the watcher enqueues the Application then."""


class RevisionFollower:
    """
    Follow the revision of an Application.

    One that declares its objects at a commit is watched with the others of its branch, and polls nothing itself. After
    a failure, a push or a change of its spec it polls by itself, until it declares a commit again.
    """

    def __init__(self, fetcher: Fetcher, watcher: GitWatcher) -> None:
        self._fetcher = fetcher
        self._watcher = watcher

    def poll(self, inputs: ReconcileInput, cache: GitCache) -> Polled:
        """Return the last poll; raise QueryDue where the next one has to be answered first."""
        key = inputs.app.key
        polled_at = self._watcher.catch_up(inputs.app)
        if polled_at is not None:  # a poll of the branch is one of the Application too
            cache.last_poll = polled_at
            cache.next_poll = polled_at + inputs.app.sync.interval
        # a reconcile holds no worker for a Git server; the watcher asks it
        polled = self._fetcher.poll(inputs, cache, waits=False)
        if polled.is_due:
            self._watcher.ask(key, polled.query)
            # with a known commit the reconcile continues with it, and the answer enqueues the Application
            if inputs.is_requested or not polled.commit:
                raise QueryDue
        # a push or a failure that is not processed yet needs a poll of its own, which the watch would replace
        elif polled.error is None and cache.notified_at is None:
            self._watcher.attempt(key, polled.query, polled.commit)
        return polled

    def checkout(self, inputs: ReconcileInput, cache: GitCache) -> Commit:
        """Return the polled commit; see ``Fetcher.checkout`` for what it raises."""
        try:
            return self._fetcher.checkout(inputs, cache)
        except SourceUnavailable:
            self._watcher.leave(inputs.app.key)  # it polls again itself, with a growing delay
            raise

    def watch(self, cache: GitCache, polled: Polled, commit: str, read: frozenset[str] | None) -> bool:
        """
        Have the branch watched from the commit that the Application declared; other commits enqueue it.

        ``read`` are the paths that its render read, None where any commit affects it. Return False where it polls by
        itself, soon.
        """
        if polled.error is not None or cache.notified_at is not None:
            self._watcher.leave(polled.query.app.key)
            return False
        self._watcher.follow(polled.query.app.key, polled.query, commit, read)
        return True
