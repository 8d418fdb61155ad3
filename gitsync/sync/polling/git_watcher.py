"""GitWatcher: query Git servers outside the reconcile workers, and wake the Applications that a commit affects."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import random

from gitsync.errors import GitsyncError
from gitsync.objects.application import Application, GitSource
from gitsync.ports import Clock, Credentials, Source
from gitsync.runtime.controller import Controller
from gitsync.runtime.workqueue import WorkQueue
from gitsync.sync.cache import GitCache
from gitsync.sync.polling.hosts import GitHosts
from gitsync.sync.polling.path_index import PathIndex
from gitsync.sync.state_store import StateStore, branch_of
from gitsync.sync.status.defects import unexpected_error

_THREADS = 32
"""Threads that wait for Git servers; each URL is queried by one at a time."""
_UNPROVEN = 24
"""How many of them may wait for hosts that did not answer before."""
_HOST_BUSY = 0.1
"""Seconds until a query is tried again that has to wait for a thread."""
PUSH_DEBOUNCE = 1.0
"""Minimum seconds between polls triggered by push notifications."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question that a reconcile needs answered: the commit of a source, by an answer after the time ``since``."""

    app: Application
    credentials: Credentials
    since: float
    cache: GitCache


@dataclass(slots=True)
class _Follower:
    """An Application that declared its objects at a commit of its branch."""

    key: str
    app: Application
    cache: GitCache
    commit: str


_Group = tuple[str, Credentials, str]
"""What Applications share the answer of: URL, credentials and revision."""


class GitWatcher:
    """
    Poll each URL at the shortest interval of its Applications, and at once after a push; reconciles never wait for Git.

    A commit enqueues the Applications that read a changed path, through an index from path to Applications; for the
    others it only records that they declare the same objects at that commit. A failed poll enqueues all Applications
    of the repository, which report it and retry by themselves.
    """

    def __init__(
        self, source: Source, state: StateStore, clock: Clock, *, random: Callable[[], float] = random
    ) -> None:
        self._source = source
        self._state = state
        self._clock = clock
        self._random = random
        self._enqueue_application: Callable[[str], None] = lambda key: None
        self._routes: list[Callable[[str], bool]] = []
        self._queue: WorkQueue[str] = WorkQueue()
        self._controller = Controller("git", self._queue, self._work, workers=_THREADS)
        self._lock = threading.RLock()
        self._queries: defaultdict[str, dict[str, Query]] = defaultdict(dict)
        self._groups: dict[_Group, dict[str, _Follower]] = {}
        self._group_of: dict[str, _Group] = {}
        self._newest: dict[_Group, str] = {}
        self._index = PathIndex()
        self._polled_at: dict[str, float] = {}
        self._notified: set[str] = set()
        self._hosts = GitHosts(clock, unproven=_UNPROVEN)

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Start querying; ``enqueue`` is called with the Applications that have to reconcile."""
        self._enqueue_application = enqueue
        self._controller.start()

    def stop(self) -> None:
        """Stop after running queries have ended, at most a second later: their answers are not needed."""
        self._controller.stop(timeout=0.1)

    def route(self, enqueue: Callable[[str], bool]) -> None:
        """Call this first with each key; it returns whether the key is one of its own, and not an Application's."""
        self._routes.append(enqueue)

    def ask(self, key: str, query: Query) -> None:
        """Query Git for one Application, which is enqueued when its cache has the answer."""
        url = query.app.source.repo_url
        with self._lock:
            self._queries[url][key] = query
        self._queue.add(url)

    def follow(self, key: str, query: Query, commit: str, read: frozenset[str] | None) -> None:
        """
        Watch the branch of an Application that declared its objects at a commit.

        ``read`` are the paths that its render read, None where any commit affects it. Where Git has another commit by
        now, the Application is enqueued.
        """
        source = query.app.source
        group = (source.repo_url, query.credentials, source.revision)
        with self._lock:
            if self._group_of.get(key) != group:
                self.leave(key)
                self._group_of[key] = group
            follower = _Follower(key, query.app, query.cache, commit)
            self._groups.setdefault(group, {})[key] = follower
            if read is None:
                self._index.remove(key)
            else:
                self._index.set(key, read)
            newest = self._newest.setdefault(group, commit)
            if newest != commit and read is not None:
                self._wake(follower, newest)
            polled = self._polled_at.setdefault(source.repo_url, self._clock.monotonic())
        self._queue.add_after(source.repo_url, polled + query.app.sync.interval - self._clock.monotonic())

    def attempt(self, key: str, query: Query, commit: str) -> None:
        """Watch the branch of an Application that tries a commit: until it declares one, any other enqueues it."""
        with self._lock:
            group = self._group_of.get(key)
            follower = self._groups[group].get(key) if group is not None else None
            if follower is None or follower.commit != commit:
                self.follow(key, query, commit, None)

    def leave(self, key: str) -> None:
        """Stop watching for an Application."""
        with self._lock:
            group = self._group_of.pop(key, None)
            self._index.remove(key)
            if group is not None:
                followers = self._groups[group]
                followers.pop(key, None)
                if not followers:
                    del self._groups[group]
                    self._newest.pop(group, None)

    def poll_now(self, keys: Iterable[str]) -> frozenset[str]:
        """Poll the repositories of these Applications now, since a push was received; return those not watched."""
        with self._lock:
            groups = {key: self._group_of.get(key) for key in keys}
            urls = {group[0] for group in groups.values() if group is not None}
            self._notified |= urls
        now = self._clock.monotonic()
        for url in urls:
            self._queue.add_after(url, self._polled_at.get(url, float("-inf")) + PUSH_DEBOUNCE - now)
        return frozenset(key for key, group in groups.items() if group is None)

    def polled_at(self, key: str) -> float | None:
        """Return the monotonic time of the last poll for an Application, None when it is not watched."""
        with self._lock:
            group = self._group_of.get(key)
            return self._polled_at.get(group[0]) if group is not None else None

    def _work(self, url: str) -> float | None:
        """Query one URL; return the seconds until its next poll, or until its host has room for another query."""
        if not self._hosts.claim(url):
            return _HOST_BUSY
        try:
            self._answer_queries(url)
            self._poll(url)
        finally:
            self._hosts.release(url)
        interval = self._interval(url)
        if interval is None:
            return None
        return self._polled_at[url] + interval * (0.9 + 0.1 * self._random()) - self._clock.monotonic()

    def _answer_queries(self, url: str) -> None:
        with self._lock:
            queries = dict(self._queries.get(url, {}))
        known: dict[_Group, str] = {}
        # the newest demand first: its answer is new enough for the others
        for key, query in sorted(queries.items(), key=lambda item: item[1].since, reverse=True):
            query.cache.answer = self._answer(query, known)
            self._remove_query(url, key, query)
            self._enqueue(key)

    def _answer(self, query: Query, known: dict[_Group, str]) -> str | GitsyncError:
        """Return the answer to a query; one for all queries of a branch, but an error for each."""
        source, credentials = query.app.source, query.credentials
        group = (source.repo_url, credentials, source.revision)
        try:
            if group not in known:
                known[group] = self._resolve(source, credentials, query.since)
                self._answered(group, known[group])
        except GitsyncError as error:
            return error
        except Exception as fault:  # the queries of other Applications are answered
            return unexpected_error(fault, query.app.key)
        return known[group]

    def _remove_query(self, url: str, key: str, query: Query) -> None:
        """Remove an answered query, unless there is a later one of the same Application."""
        with self._lock:
            if self._queries[url].get(key) is query:
                del self._queries[url][key]
            if not self._queries[url]:
                del self._queries[url]

    def _poll(self, url: str) -> None:
        """Poll the branches that Applications watch, where that is due."""
        began = self._clock.monotonic()
        with self._lock:
            interval = self._interval(url)
            is_due = interval is not None and began - self._polled_at[url] >= 0.9 * interval
            if url not in self._notified and not is_due:
                return
            self._notified.discard(url)
            self._polled_at[url] = began
            groups = [group for group in self._groups if group[0] == url]
        for group in groups:
            with self._lock:
                follower = next(iter(self._groups.get(group, {}).values()), None)
            if follower is not None:
                self._poll_group(group, follower.app.source, began)

    def _poll_group(self, group: _Group, source: GitSource, began: float) -> None:
        try:
            self._answered(group, self._resolve(source, group[1], began))
        except Exception:  # also a defect: those who follow the branch query it themselves, and report what fails
            with self._lock:
                for follower in list(self._groups.get(group, {}).values()):
                    self.leave(follower.key)
                    follower.cache.notified_at = began
                    self._enqueue(follower.key)

    def _answered(self, group: _Group, commit: str) -> None:
        """Compare what the Applications of a group declared with the commit that Git has now."""
        with self._lock:
            if group in self._groups:
                self._newest[group] = commit
            behind = [follower for follower in self._groups.get(group, {}).values() if follower.commit != commit]
        for before in {follower.commit for follower in behind}:
            self._move([follower for follower in behind if follower.commit == before], before, commit)

    def _move(self, followers: list[_Follower], before: str, commit: str) -> None:
        """Enqueue the Applications that a new commit affects; for the others, record that they declare the same."""
        source = followers[0].app.source
        changed = self._source.changed_paths(source, before, commit)
        is_known = changed is not None and self._source.is_forward(source, before, commit)
        with self._lock:
            affected = self._index.affected(changed or ())
            for follower in followers:
                if self._group_of.get(follower.key) is None or follower.commit != before:
                    continue
                if not is_known or follower.key in affected or follower.key not in self._index:
                    self._wake(follower, commit)
                else:
                    self._skip(follower, commit)

    def _enqueue(self, key: str) -> None:
        if not any(enqueue(key) for enqueue in self._routes):
            self._enqueue_application(key)

    def _wake(self, follower: _Follower, commit: str) -> None:
        follower.cache.answer = commit
        self._enqueue(follower.key)

    def _skip(self, follower: _Follower, commit: str) -> None:
        before, follower.commit = follower.commit, commit
        if follower.cache.commit == before:
            follower.cache.commit = commit
        if branch := branch_of(follower.app):
            self._state.advance_declared(follower.key, branch, before, commit)

    def _resolve(self, source: GitSource, credentials: Credentials, since: float) -> str:
        """Return the commit of a source by an answer after a time, fetched; raise at once for a host that backs off."""
        with self._hosts.query(source.repo_url):
            now = self._clock.monotonic()
            commit = self._source.resolve(source, credentials, max_age=max(now - since, 0.0))
            self._source.fetch(source, credentials, commit, max_age=max(now - since, 0.0))
        return commit

    def _interval(self, url: str) -> float | None:
        """Return the shortest interval in seconds of the Applications that follow a URL, None when there is none."""
        with self._lock:
            groups = [followers for group, followers in self._groups.items() if group[0] == url]
            return min((one.app.sync.interval for followers in groups for one in followers.values()), default=None)
