"""GitWatcher: query Git servers outside the reconcile workers, and wake the Applications that a commit affects."""

from __future__ import annotations

import posixpath
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from random import random

from gitsync.errors import GitsyncError, detached
from gitsync.objects.application import Application, GitSource
from gitsync.objects.record import Push
from gitsync.ports import Clock, Credentials, Source
from gitsync.runtime.controller import Controller
from gitsync.runtime.workqueue import WorkQueue
from gitsync.state.declarations import Declarations, DeclaredAt, branch_of
from gitsync.sync.cache import GitAnswer, GitCache
from gitsync.sync.polling.branches import Branches, BranchKey, Follower, WatchedBranch
from gitsync.sync.polling.hosts import GitHosts
from gitsync.sync.status.report import unexpected_error

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
    reported: str = ""
    """The commit in the status of an Application that only checks it, as after a restart; empty where one waits."""


class GitWatcher:
    """
    Poll each URL at the shortest interval of its Applications, and at once after a push; reconciles never wait for Git.

    A commit enqueues the Applications that read a changed path, through an index from path to Applications; for the
    others it only records that they declare the same objects at that commit. A failed poll enqueues all Applications
    of the repository, which report it and retry by themselves.
    """

    def __init__(
        self, source: Source, declarations: Declarations, clock: Clock, *, random: Callable[[], float] = random
    ) -> None:
        self._source = source
        self._declarations = declarations
        self._clock = clock
        self._random = random
        self._enqueue_application: Callable[[str, bool], None] = lambda key, is_urgent: None
        self._routes: list[Callable[[str], bool]] = []
        # one key for each URL: Applications of a repository share the query, and the queue never runs a key twice at a
        # time
        self._queue: WorkQueue[str] = WorkQueue(monotonic=clock.monotonic)
        self._controller = Controller("git", self._queue, self._work, workers=_THREADS)
        # reentrant: ``attempt`` and ``catch_up`` call other methods that take it
        self._lock = threading.RLock()
        self._queries: defaultdict[str, dict[str, Query]] = defaultdict(dict)
        self._branches = Branches()
        self._polled_at: dict[str, float] = {}
        self._notified: set[str] = set()
        self._hosts = GitHosts(clock, unproven=_UNPROVEN)

    def start(self, enqueue: Callable[[str, bool], None]) -> None:
        """Start querying; ``enqueue`` gets each Application that has to reconcile, and whether it is urgent."""
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
        url = source.repo_url
        at = DeclaredAt(branch_of(query.app) or ("", ""), commit)
        with self._lock:
            self._detach(key)
            first = WatchedBranch((url, query.credentials, source.revision), commit, replace(at))
            branch = self._branches.add(first, follower := Follower(key, query.app, query.cache, commit), read)
            if key in branch.current:
                self._declarations.advance_declared(key, at, branch.declared)
            if branch.newest != commit and read is not None:
                self._wake(follower, branch.newest)
            polled = self._polled_at.setdefault(url, self._clock.monotonic())
        self._queue.add_after(url, polled + query.app.sync.interval - self._clock.monotonic())

    def attempt(self, key: str, query: Query, commit: str) -> None:
        """Watch the branch of an Application that tries a commit: until it declares one, any other enqueues it."""
        with self._lock:
            branch = self._branches.branch_of(key)
            # it is watched already from this commit, with the paths that it read
            if branch is None or branch.commit_of(key) != commit:
                self.follow(key, query, commit, None)

    def leave(self, key: str) -> None:
        """Stop watching for an Application."""
        with self._lock:
            self._detach(key)
            self._branches.remove(key)

    def _detach(self, key: str) -> Follower | None:
        """Return a follower of a branch, with its own commit: it does not move with the others any more."""
        branch = self._branches.branch_of(key)
        if branch is None:
            return None
        # a copy for the follower alone: the shared one continues to move with the others
        self._declarations.advance_declared(key, branch.declared, replace(branch.declared))
        return branch.detach(key)

    def poll_now(self, keys: Iterable[str], push: Push | None = None) -> frozenset[str]:
        """
        Poll the repositories of these Applications now, since a push was received; return those not watched.

        One that affects none by the files that its event lists is left to the next poll, which trusts no event.
        """
        with self._lock:
            branches = {key: self._branches.branch_of(key) for key in keys}
            urls = {branch.key[0] for branch in branches.values() if branch is not None}
            if push is not None:
                urls = {url for url in urls if self._is_concerned(url, push)}
            self._notified |= urls
        now = self._clock.monotonic()
        for url in urls:
            # one poll answers all pushes within this time
            self._queue.add_after(url, self._polled_at.get(url, float("-inf")) + PUSH_DEBOUNCE - now)
        return frozenset(key for key, branch in branches.items() if branch is None)

    def _is_concerned(self, url: str, push: Push) -> bool:
        """Whether a push may affect those who watch a repository; where it does not, keep its commit."""
        branches = self._branches.of(url)
        # an answer that is awaited is compared with what was known before the push
        is_awaited = url in self._queries or url in self._notified
        if is_awaited or any(branch.is_concerned(push) for branch in branches):
            return True
        for branch in branches:
            if branch.name == push.branch:
                branch.unfetched = push.after
        return False

    def is_watched(self, key: str) -> bool:
        """Return whether an Application follows a branch."""
        with self._lock:
            return self._branches.branch_of(key) is not None

    def catch_up(self, app: Application) -> float | None:
        """
        Set the commit of an Application's cache to the newest one that the watch saw, where none since affected it.

        Return the monotonic time of the last poll, None when it is not watched. One that names another branch by now
        is not watched any more: polls of the former one answer nothing for it.
        """
        key = app.key
        with self._lock:
            branch = self._branches.branch_of(key)
            if branch is None:
                return None
            url, _, revision = branch.key
            if (url, revision) != (app.source.repo_url, app.source.revision):
                self.leave(key)
                return None
            branch.catch_up(key)
            return self._polled_at.get(branch.key[0])

    def _work(self, url: str) -> float | None:
        """Query one URL; return the seconds until its next poll, or until its host has room for another query."""
        # not a failure: the host is busy, and the key returns to the queue instead of holding a thread
        if not self._hosts.claim(url):
            return _HOST_BUSY
        try:
            self._answer_queries(url)
            self._poll(url)
        finally:
            # also after a defect, or the host would lose a thread for ever
            self._hosts.release(url)
        with self._lock:
            interval = self._branches.interval(url)
        if interval is None:
            return None
        return self._polled_at[url] + interval * (0.9 + 0.1 * self._random()) - self._clock.monotonic()

    def _answer_queries(self, url: str) -> None:
        with self._lock:
            # a copy: answers are written without the lock, while other Applications ask
            queries = dict(self._queries.get(url, {}))
        known: dict[BranchKey, str] = {}
        folders = ChangedFolders(self._source)
        # the newest demand first: its answer is new enough for the others
        for key, query in sorted(queries.items(), key=lambda item: item[1].since, reverse=True):
            source = query.app.source
            answer = self._answer(query, known)
            query.cache.answer = GitAnswer(source.repo_url, source.revision, answer)
            self._remove_query(url, key, query)
            # after a restart all ask, and users wait for what was pushed meanwhile
            self._enqueue(key, is_urgent=folders.may_concern(query, answer))

    def _answer(self, query: Query, known: dict[BranchKey, str]) -> str | GitsyncError:
        """Return the answer to a query; one for all queries of a branch, but an error for each."""
        source = query.app.source
        credentials = query.credentials
        group = (source.repo_url, credentials, source.revision)
        try:
            if group not in known:
                known[group] = self._resolve(source, credentials, query.since)
                self._answered(group, known[group])
        except GitsyncError as error:
            return detached(error)
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
            interval = self._branches.interval(url)
            # the schedule is up to a tenth earlier than the interval, see ``_work``
            is_due = interval is not None and began - self._polled_at[url] >= 0.9 * interval
            if url not in self._notified and not is_due:
                return
            self._notified.discard(url)
            self._polled_at[url] = began
            branches = self._branches.of(url)
        # without the lock, for which reconciles wait: these queries wait for a server
        for branch in branches:
            self._poll_branch(branch, began)

    def _poll_branch(self, branch: WatchedBranch, began: float) -> None:
        with self._lock:
            source = branch.source
        if source is None:  # its last follower left
            return
        try:
            self._answered(branch.key, self._resolve(source, branch.key[1], began))
        except Exception:  # also a defect: those who follow the branch query it themselves, and report what fails
            with self._lock:
                for key in branch.followers():
                    follower = self._detach(key)
                    self.leave(key)
                    if follower is not None:
                        follower.cache.notified_at = began
                    self._enqueue(key)

    def _answered(self, key: BranchKey, commit: str) -> None:
        """Compare what the followers of a branch have declared with the commit that Git has now."""
        with self._lock:
            url, _, revision = key
            self._declarations.record_newest((url, revision.removeprefix("refs/heads/")), commit)
            branch = self._branches.get(key)
            if branch is None:
                return
            branch.newest = commit
            branch.unfetched = ""
            # a list, since moving the followers changes the commits of the branch
            old_commits = [old_commit for old_commit in branch.commits() if old_commit != commit]
        for old_commit in old_commits:
            self._move(branch, old_commit, commit)

    def _move(self, branch: WatchedBranch, old_commit: str, commit: str) -> None:
        """Enqueue the followers at a commit that a new one affects; the others have declared the same at that one."""
        with self._lock:
            source = branch.source
        if source is None:
            return
        # without the lock: it reads the mirror
        changed = self._source.changed_paths(source, old_commit, commit)
        is_known = changed is not None and self._source.is_forward(source, old_commit, commit)
        with self._lock:
            affected = (
                # a rewritten branch affects all: each of them decides whether its commit is held
                branch.affected(old_commit, changed) if is_known and changed is not None else branch.at(old_commit)
            )
            for key in affected:
                if (follower := self._detach(key)) is not None:
                    self._wake(follower, commit)
            if branch.declared.commit == old_commit:
                branch.declared.commit = commit
            # after the current ones have moved, so that a follower joins them where the commits are equal now
            for key in set(branch.at(old_commit)).difference(affected):
                self._skip(branch, branch.behind[key], commit)

    def _enqueue(self, key: str, *, is_urgent: bool = True) -> None:
        if not any(enqueue(key) for enqueue in self._routes):
            self._enqueue_application(key, is_urgent)

    def _wake(self, follower: Follower, commit: str) -> None:
        source = follower.app.source
        follower.cache.answer = GitAnswer(source.repo_url, source.revision, commit)
        self._enqueue(follower.key)

    def _skip(self, branch: WatchedBranch, follower: Follower, commit: str) -> None:
        """Move a follower that is behind to a commit that does not affect it, with the current ones where they are."""
        old_declaration = replace(branch.declared, commit=follower.commit)
        if follower.cache.commit == follower.commit:
            follower.cache.commit = commit
        follower.commit = commit
        branch.sort(follower)
        is_current = follower.key in branch.current
        new_declaration = branch.declared if is_current else replace(branch.declared, commit=commit)
        self._declarations.advance_declared(follower.key, old_declaration, new_declaration)

    def _resolve(self, source: GitSource, credentials: Credentials, since: float) -> str:
        """Return the commit of a source by an answer after a time, fetched; raise at once for a host that backs off."""
        with self._hosts.query(source.repo_url):
            now = self._clock.monotonic()
            # the same age for both: a fetch that failed after this demand was made is not repeated for it
            commit = self._source.resolve(source, credentials, max_age=max(now - since, 0.0))
            self._source.fetch(source, credentials, commit, max_age=max(now - since, 0.0))
        return commit


class ChangedFolders:
    """
    Judge which answers may concern their Applications by folders alone, for those of which nothing is rendered yet.

    It decides an order only: what is rendered of another folder, such as a base, is found by the reconcile.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._folders: dict[tuple[str, str, str], frozenset[str] | None] = {}

    def may_concern(self, query: Query, answer: str | GitsyncError) -> bool:
        """Whether an answer may change an Application; False only where no file below its folders differs."""
        source = query.app.source
        if not query.reported or isinstance(answer, GitsyncError) or len(source.parts) > 1:
            return True
        if query.reported == answer:
            return False
        pair = (source.repo_url, query.reported, answer)
        if pair not in self._folders:
            self._folders[pair] = self._of(source, query.reported, answer)
        folders = self._folders[pair]
        return folders is None or posixpath.normpath(source.path) in folders

    def _of(self, source: GitSource, earlier: str, later: str) -> frozenset[str] | None:
        """Return the folders below which two commits differ, None where that is not known."""
        try:
            paths = self._source.changed_paths(source, earlier, later)
        except Exception:  # the reconcile meets it too, and reports it
            return None
        if paths is None:
            return None
        return frozenset(str(folder) for path in paths for folder in PurePosixPath(path).parents)
