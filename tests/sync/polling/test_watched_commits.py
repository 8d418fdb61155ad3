"""Commits of a watched branch: which Applications they enqueue, and at which commit the others have declared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.objects.application import Application, GitSource, parse_application
from gitsync.objects.record import Push
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Credentials, Source
from gitsync.runtime.clock import SystemClock
from gitsync.state.declarations import Declarations, DeclaredAt
from gitsync.sync.cache import GitAnswer, GitCache
from gitsync.sync.polling.git_watcher import PUSH_DEBOUNCE, GitWatcher, Query

URL = "https://git.example/r.git"
BRANCH = (URL, "main")
OBJECT = ObjectRef("", "ConfigMap", "shop", "a")
COUNT = 6
ANY = COUNT - 1
"""The Application that any commit affects."""
CHANGES = st.frozensets(st.integers(0, COUNT - 1), max_size=2)
STEPS = st.lists(st.tuples(CHANGES, st.frozensets(st.integers(0, COUNT - 1))), min_size=1, max_size=8)


class History:
    """A Git server with one branch; each commit changes the paths of some Applications."""

    def __init__(self) -> None:
        self.commits: list[frozenset[int]] = [frozenset()]

    @property
    def newest(self) -> str:
        """The newest commit, which is its number."""
        return str(len(self.commits) - 1)

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """Return the newest commit."""
        return self.newest

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        """Do nothing: the commit is there."""

    def changed_paths(self, source: GitSource, before: str, after: str) -> frozenset[str]:
        """Return the paths that the commits between two change."""
        changes = self.commits[int(before) + 1 : int(after) + 1]
        return frozenset(f"app-{number}/a.yaml" for change in changes for number in change)

    def is_forward(self, source: GitSource, before: str, after: str) -> bool:
        """Whether a commit contains another one."""
        return int(before) <= int(after)


class CountedDeclarations(Declarations):
    """They count how often single Applications were moved to another commit."""

    moves = 0

    def advance_declared(self, key: str, before: DeclaredAt, after: DeclaredAt) -> None:
        self.moves += 1
        super().advance_declared(key, before, after)


class World:
    """A watcher of Applications, which follow the branch from its first commit."""

    def __init__(self, count: int) -> None:
        self.git, self.answered = History(), Queue[str]()
        self.declarations = CountedDeclarations()
        self.watcher = GitWatcher(cast("Source", self.git), self.declarations, SystemClock())
        self.caches = [GitCache() for _ in range(count)]
        self.watcher.start(lambda key, is_urgent: self.answered.put(key))
        for number in range(count):
            self.declare(number, "0")

    def declare(self, number: int, commit: str) -> None:
        """Reconcile an Application: it declares its objects at a commit, and follows the branch from there."""
        cache, key = self.caches[number], key_of(number)
        cache.commit, cache.answer = commit, None
        self.declarations.record_declared(key, BRANCH, commit)
        read = None if number == ANY else frozenset({f"app-{number}/"})
        self.watcher.follow(key, self.query(number, cache), commit, read)

    def query(self, number: int, cache: GitCache) -> Query:
        return Query(application(number), Credentials(), SystemClock().monotonic(), cache)

    def commit(self, changed: frozenset[int]) -> set[str]:
        """Make a commit and query the branch, as an Application does that is new; return those that are enqueued."""
        self.git.commits.append(changed)
        new = application(len(self.caches)).key
        self.watcher.ask(new, self.query(len(self.caches), GitCache()))
        found = set[str]()
        while (key := self.answered.get(timeout=60)) != new:
            found.add(key)
        return found


def key_of(number: int) -> str:
    return f"gitsync/app-{number}"


def application(number: int) -> Application:
    source = {"repoURL": URL, "revision": "main", "path": f"app-{number}"}
    metadata = {"name": f"app-{number}", "namespace": "gitsync"}
    return parse_application({"metadata": metadata, "spec": {"source": source, "destination": {}}})


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.watcher.stop()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_commit_moves_those_that_it_does_not_affect(
    worlds: list[World], steps: list[tuple[frozenset[int], frozenset[int]]]
) -> None:
    """Some of the affected Applications are reconciled before the next commit, others are not."""
    world = World(COUNT)
    worlds.append(world)
    declared, behind = dict.fromkeys(range(COUNT), "0"), set[int]()
    for changed, reconciled in steps:
        enqueued, newest = world.commit(changed), world.git.newest
        assert enqueued == {key_of(number) for number in changed | behind | {ANY}}
        behind |= changed | {ANY}
        declared |= dict.fromkeys(set(range(COUNT)) - behind, newest)
        for number in behind & reconciled:
            assert world.caches[number].answer == GitAnswer(URL, "main", newest)
            world.declare(number, newest)
            declared[number] = newest
        behind -= reconciled
        found = world.declarations.applications_behind("gitsync/another", BRANCH, newest, [OBJECT])
        assert set(found) == {key_of(number) for number in behind}
        for number, commit in declared.items():
            world.watcher.catch_up(application(number))
            assert world.caches[number].commit == commit


def test_a_commit_costs_nothing_for_those_that_it_does_not_affect(worlds: list[World]) -> None:
    world = World(1000)
    worlds.append(world)
    world.declarations.moves = 0
    assert world.commit(frozenset({7})) == {key_of(7), key_of(ANY)}
    assert world.declarations.moves == 2
    assert world.declarations.applications_behind("gitsync/another", BRANCH, "1", [OBJECT]) == (key_of(ANY), key_of(7))


def test_one_that_left_keeps_its_commit(worlds: list[World]) -> None:
    world = World(3)
    worlds.append(world)
    world.watcher.leave(key_of(0))
    world.commit(frozenset({2}))
    assert world.watcher.catch_up(application(0)) is None
    assert world.caches[0].commit == "0"
    assert world.declarations.applications_behind("gitsync/another", BRANCH, "1", [OBJECT]) == (key_of(0), key_of(2))


def test_a_rewritten_branch_enqueues_all_of_its_applications(worlds: list[World]) -> None:
    world = World(3)
    worlds.append(world)
    world.git.is_forward = lambda source, before, after: False  # type: ignore[method-assign]
    assert world.commit(frozenset()) == {key_of(0), key_of(1), key_of(2)}
    assert len(world.declarations.applications_behind("gitsync/another", BRANCH, "1", [OBJECT])) == 3


def pushed(world: World, *paths: str, before: str = "", branch: str = "main") -> set[str]:
    """Commit a change of Application 0 and send an event with these paths; return what is enqueued."""
    before = before or world.git.newest
    world.git.commits.append(frozenset({0}))
    world.watcher.poll_now([key_of(0)], Push(branch, before, world.git.newest, frozenset(paths)))
    enqueued = set[str]()
    # longer than pushes are debounced
    with suppress(Empty):
        while True:
            enqueued.add(world.answered.get(timeout=1.5 * PUSH_DEBOUNCE))
    return enqueued


def test_a_push_that_affects_none_by_its_event_is_left_to_the_next_poll(worlds: list[World]) -> None:
    world = World(3)
    worlds.append(world)
    assert pushed(world, "README.md", "app-7/a.yaml") == set()
    # also of the next push, which begins where that one ended
    assert pushed(world, "README.md") == set()
    assert world.watcher.catch_up(application(0)) is not None
    assert world.caches[0].commit == "0"
    # the poll believes no event: these commits changed an Application
    assert world.commit(frozenset()) == {key_of(0)}


@pytest.mark.parametrize(
    ("paths", "before", "count"),
    [
        (("app-0/b.yaml",), "", 3),
        (("README.md", "app-0/sub/c.yaml"), "", 3),
        (("README.md",), "7", 3),  # a commit that is not known: an event was lost
        (("README.md",), "", COUNT),  # any commit affects the last one
    ],
)
def test_a_push_that_may_affect_one_is_polled(
    worlds: list[World], paths: tuple[str, ...], before: str, count: int
) -> None:
    world = World(count)
    worlds.append(world)
    assert key_of(0) in pushed(world, *paths, before=before)


def test_a_push_of_another_branch_is_not_polled(worlds: list[World]) -> None:
    world = World(3)
    worlds.append(world)
    assert pushed(world, "app-0/a.yaml", branch="feature") == set()
    assert pushed(world, "app-0/a.yaml", before="0") == {key_of(0)}
