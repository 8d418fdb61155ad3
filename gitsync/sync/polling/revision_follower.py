"""RevisionFollower: the commit that an Application follows, between its own polls and the watch of its branch."""

from __future__ import annotations

from gitsync.errors import SourceUnavailable
from gitsync.objects.record import Commit
from gitsync.sync.cache import GitCache
from gitsync.sync.input import ReconcileInput
from gitsync.sync.polling.fetch import Fetcher, Polled
from gitsync.sync.polling.git_watcher import GitWatcher


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
        polled = self._fetcher.poll(inputs, cache)
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
