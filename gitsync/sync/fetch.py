"""Fetch: which commit an application follows now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import random

from gitsync.errors import Refused, SourceUnavailable
from gitsync.objects.manifest import at
from gitsync.objects.record import Commit
from gitsync.ports import Clock, Cluster, Credentials, LiveCache, Snapshot, Source
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.credentials import credentials_of, secret_of, text_of
from gitsync.sync.reconcile import FailureReason, Reconcile

Verify = Callable[[Path, str, Mapping[str, str]], object]
"""Raise Refused unless a commit of a mirror is signed by one of the named keys."""

_NOW = float("-inf")
_RETRY = 30.0
_PUSH_DEBOUNCE = 1.0
"""However often it is said that Git has changed, it is asked once in so many seconds."""


class Fetcher:
    """
    Ask the Git server when a poll is due or a person asks, and remember the answer until then.

    Other credentials are tried, and other trusted keys applied, at the next look.
    """

    def __init__(
        self,
        source: Source,
        verify: Verify,
        cluster: Cluster,
        live: LiveCache,
        clock: Clock,
        *,
        random: Callable[[], float] = random,
    ) -> None:
        self._source = source
        self._verify = verify
        self._cluster = cluster
        self._live = live
        self._clock = clock
        self._random = random

    def fetch(self, run: Reconcile, cache: ReconcileCache) -> Commit:
        """Return the commit that the application follows; the last good one while the Git server is away."""
        run.stage = FailureReason.SOURCE
        source = run.app.source
        self._source.check(source)
        if cache.source != source:
            cache.source, cache.fetched, cache.next_poll = source, None, _NOW
        now = self._clock.monotonic()
        if run.app.requested_sync != cache.polled_request:
            cache.notified_at, cache.polled_request = now, run.app.requested_sync
        credentials = self._credentials(run)
        if credentials != cache.credentials:
            cache.credentials, cache.next_poll = credentials, _NOW
        if self._is_due(run, cache, now):
            self._poll(run, cache, now)
        run.source_error = cache.poll_error
        run.requeue_in(max(cache.next_poll - now, 0.05))
        trusted = self._trusted_keys(run) if source.verify.mode == "SignedCommits" else None
        if cache.fetched is None or cache.fetched.id != cache.commit or cache.trusted != trusted:
            snapshot = self.snapshot(run, cache, cache.commit)
            if trusted is not None:
                self._verify(Path(snapshot.git_dir), cache.commit, trusted)
            cache.fetched, cache.trusted = snapshot.commit, trusted
        if not run.is_requested:
            self._reject_force_push(run, cache)
        run.commit = run.target_commit = cache.fetched
        return cache.fetched

    def snapshot(self, run: Reconcile, cache: ReconcileCache, commit: str) -> Snapshot:
        """Return the files of a commit; the last one asked for is kept until it was rendered."""
        if cache.snapshot is None or cache.snapshot.commit.id != commit:
            cache.snapshot = self._source.snapshot(run.app.source, self._credentials(run), commit)
        return cache.snapshot

    def _reject_force_push(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Refuse a branch that was rewritten: its new commit does not contain the applied one."""
        before, after = run.applied_before, cache.commit
        if not before or before == after:
            return
        if cache.fast_forward[:2] != (before, after):
            cache.fast_forward = (before, after, self._source.is_forward(run.app.source, before, after))
        if not cache.fast_forward[2]:
            raise Refused(
                f"non-fast-forward: {run.app.source.revision} was moved to {after[:12]}, which does not contain the "
                f"applied commit {before[:12]}; it is held, and {before[:12]} stays applied",
                location="spec.source.revision",
                hint="ask for a sync to take it",
            )

    def _is_due(self, run: Reconcile, cache: ReconcileCache, now: float) -> bool:
        """Whether to ask now; a push event shortly after the last question waits, a person does not."""
        if now >= cache.next_poll:
            return True
        if cache.notified_at is None or run.is_requested:
            return cache.notified_at is not None
        rest = cache.last_poll + _PUSH_DEBOUNCE - now
        if rest > 0:
            run.requeue_in(rest)
        return rest <= 0

    def _poll(self, run: Reconcile, cache: ReconcileCache, now: float) -> None:
        interval = run.app.sync.interval
        # applications of one repository share a poll: what another one heard lately, or since the hint, is as good
        age = interval / 2 if cache.notified_at is None else max(now - cache.notified_at, 0.0)
        cache.notified_at, cache.last_poll = None, now
        try:
            cache.commit = self._source.resolve(run.app.source, self._credentials(run), max_age=age)
            cache.poll_error = None
            cache.next_poll = now + interval * (0.9 + 0.1 * self._random())
        except SourceUnavailable as error:
            cache.commit = cache.commit or str(at(run.manifest, "status", "revision", "fetched", default=""))
            if not cache.commit:
                raise
            cache.poll_error = error
            cache.next_poll = now + min(interval, _RETRY)

    def _credentials(self, run: Reconcile) -> Credentials:
        return credentials_of(run.app, self._cluster, self._live)

    def _trusted_keys(self, run: Reconcile) -> dict[str, str]:
        where = "spec.source.verify.secretRef.name"
        secret = secret_of(run.app, run.app.source.verification_secret, where, self._cluster, self._live)
        return {name: text_of(secret, name) for name in secret.get("data") or {}}
