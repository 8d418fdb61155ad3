"""Branches: the Applications that watch branches, and the commits at which they declared their objects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from gitsync.objects.application import Application, GitSource
from gitsync.objects.record import Push
from gitsync.ports import Credentials
from gitsync.state.declarations import DeclaredAt
from gitsync.sync.cache import GitCache


class PathIndex:
    """
    Find the Applications that read one of some changed paths, at a cost that follows the number of changed paths.

    What an Application read are files, also absent ones, and folders, which end in ``/`` and mean everything below.
    """

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = {}
        self._read: dict[str, frozenset[str]] = {}

    def set(self, key: str, read: frozenset[str]) -> None:
        """Store what an Application read, instead of what it read before."""
        previous = self._read.get(key, frozenset())
        # a render from the cache hands out the identical set
        if previous is read:
            return
        for path in previous - read:
            self._keys[path].discard(key)
            if not self._keys[path]:
                del self._keys[path]
        for path in read - previous:
            self._keys.setdefault(path, set()).add(key)
        self._read[key] = read

    def remove(self, key: str) -> None:
        """Remove an Application."""
        self.set(key, frozenset())
        self._read.pop(key, None)

    def affected(self, changed: Iterable[str]) -> frozenset[str]:
        """Return the Applications that read one of these paths, or a folder above it."""
        places = frozenset(chain.from_iterable(map(_places, changed)))
        return frozenset(chain.from_iterable(self._keys.get(place, ()) for place in places))

    def __contains__(self, key: str) -> bool:
        return key in self._read


def reads(read: frozenset[str], changed: Iterable[str]) -> bool:
    """Whether one of some changed paths was read, or is below a folder that was read."""
    return not read.isdisjoint(chain.from_iterable(map(_places, changed)))


def _places(path: str) -> Iterator[str]:
    """Yield a path and the folders above it, as they are stored."""
    yield path
    # a folder matches whatever changed below it, also files that did not exist when it was read
    yield "/"
    for end, character in enumerate(path):
        if character == "/":
            yield path[: end + 1]


BranchKey = tuple[str, Credentials, str]
"""What Applications share the answer of: URL, credentials and revision."""


@dataclass(slots=True)
class Follower:
    """An Application that declared its objects at a commit of its branch."""

    key: str
    app: Application
    cache: GitCache
    commit: str


@dataclass(slots=True)
class WatchedBranch:
    """
    The followers of a branch.

    The ``current`` ones have declared their objects at the commit of ``declared``: one that does not affect them moves
    all of them at once, at no cost for each. Those ``behind`` have declared theirs at a commit of their own.
    """

    key: BranchKey
    newest: str
    """The commit that Git had at the last answer."""
    declared: DeclaredAt
    current: dict[str, Follower] = field(default_factory=dict)
    behind: dict[str, Follower] = field(default_factory=dict)
    index: PathIndex = field(default_factory=PathIndex)
    unindexed: set[str] = field(default_factory=set)
    """The followers that any commit affects."""
    unfetched: str = ""
    """The commit of the last push that affects none of them by its event, empty once Git has answered again."""

    def add(self, follower: Follower, read: frozenset[str] | None) -> None:
        """Add a follower with the paths that it read, None where any commit affects it."""
        if read is None:
            self.unindexed.add(follower.key)
        else:
            self.index.set(follower.key, read)
        # no follower moves with the group yet, so that it may start at this commit
        if not self.current and follower.commit == self.newest:
            self.declared.commit = follower.commit
        self.sort(follower)

    def sort(self, follower: Follower) -> None:
        """Put a follower among the current ones, or among those behind."""
        self.behind.pop(follower.key, None)
        (self.current if follower.commit == self.declared.commit else self.behind)[follower.key] = follower

    def remove(self, key: str) -> Follower | None:
        """Remove and return a follower."""
        follower = self.detach(key)
        self.behind.pop(key, None)
        self.index.remove(key)
        self.unindexed.discard(key)
        return follower

    def detach(self, key: str) -> Follower | None:
        """Give a follower its own commit, since it does not move with the others any more."""
        # before the follower leaves the group: afterwards the commit of the group is not its own any more
        self.catch_up(key)
        follower = self.current.pop(key, None)
        if follower is not None:
            self.behind[key] = follower
        return self.behind.get(key)

    def catch_up(self, key: str) -> None:
        """Set the commit of a follower and of its cache to the one that it has moved to with the others."""
        follower = self.current.get(key)
        if follower is None:
            return
        # a cache that has another commit polled by itself meanwhile, and is newer
        if follower.cache.commit == follower.commit:
            follower.cache.commit = self.declared.commit
        follower.commit = self.declared.commit

    def commit_of(self, key: str) -> str:
        """Return the commit at which a follower has declared its objects."""
        return self.declared.commit if key in self.current else self.behind[key].commit

    def commits(self) -> list[str]:
        """Return the commits at which the followers have declared their objects, that of the current ones first."""
        current = [self.declared.commit] if self.current else []
        return [*dict.fromkeys([*current, *(follower.commit for follower in self.behind.values())])]

    def at(self, commit: str) -> list[str]:
        """Return the keys of the followers at a commit."""
        behind = [key for key, follower in self.behind.items() if follower.commit == commit]
        return [*self.current, *behind] if commit == self.declared.commit else behind

    def affected(self, commit: str, changed: Collection[str]) -> list[str]:
        """Return the followers at a commit that read one of some changed paths, or a folder above it."""
        keys = self.index.affected(changed) | self.unindexed
        # the index has the followers at all commits, and the change is one from this commit
        return [key for key in keys if self.commit_of(key) == commit]

    def is_concerned(self, push: Push) -> bool:
        """Whether a push may affect a follower; False only where its event shows that it does not."""
        source = self.source
        # of several sources, the revision is none of a branch
        if source is None or len(source.parts) > 1:
            return True
        if self.name != push.branch:
            # it moves no other branch, no tag and no commit
            return self.name == "HEAD"
        if push.before not in (self.newest, self.unfetched):
            return True
        return bool(self.unindexed or self.index.affected(push.paths))

    @property
    def name(self) -> str:
        """The revision that is followed, a branch by its short name."""
        return self.key[2].removeprefix("refs/heads/")

    def followers(self) -> list[str]:
        """Return the keys of all followers."""
        return [*self.current, *self.behind]

    @property
    def source(self) -> GitSource | None:
        """The source of the followers, None when there is none any more."""
        follower = next(
            (follower for followers in (self.current, self.behind) for follower in followers.values()), None
        )
        return follower.app.source if follower is not None else None


class Branches:
    """All watched branches, by repository and by follower."""

    def __init__(self) -> None:
        self._branches: dict[str, dict[BranchKey, WatchedBranch]] = {}
        self._intervals: defaultdict[str, Counter[float]] = defaultdict(Counter)
        self._branch_of: dict[str, WatchedBranch] = {}

    def add(self, branch: WatchedBranch, follower: Follower, read: frozenset[str] | None) -> WatchedBranch:
        """Add a follower to its branch, to ``branch`` where it is the first, and return the branch."""
        url = branch.key[0]
        # from the branch before, which may have another URL, before the new one is counted
        previous_branch = self._discard(follower.key)
        branch = self._branches.setdefault(url, {}).setdefault(branch.key, branch)
        branch.add(follower, read)
        self._branch_of[follower.key] = branch
        self._intervals[url][follower.app.sync.interval] += 1
        # last: the follower may have returned to the same branch, which must not be dropped
        self._forget_unused(previous_branch)
        return branch

    def remove(self, key: str) -> None:
        """Remove a follower, and its branch where it was the last one."""
        self._forget_unused(self._discard(key))

    def of(self, url: str) -> tuple[WatchedBranch, ...]:
        """Return the branches of a repository."""
        return tuple(self._branches.get(url, {}).values())

    def get(self, key: BranchKey) -> WatchedBranch | None:
        """Return a branch that is watched."""
        return self._branches.get(key[0], {}).get(key)

    def branch_of(self, key: str) -> WatchedBranch | None:
        """Return the branch of a follower."""
        return self._branch_of.get(key)

    def interval(self, url: str) -> float | None:
        """Return the shortest interval in seconds of the followers of a repository, None when there is none."""
        return min(self._intervals.get(url, ()), default=None)

    def _discard(self, key: str) -> WatchedBranch | None:
        branch = self._branch_of.pop(key, None)
        follower = branch.remove(key) if branch is not None else None
        if branch is not None and follower is not None:
            # Counter subtraction drops intervals without followers, so that they no longer count for the minimum
            self._intervals[branch.key[0]] -= Counter([follower.app.sync.interval])
        return branch

    def _forget_unused(self, branch: WatchedBranch | None) -> None:
        if branch is None or branch.current or branch.behind:
            return
        url = branch.key[0]
        del self._branches[url][branch.key]
        if not self._branches[url]:
            del self._branches[url], self._intervals[url]
