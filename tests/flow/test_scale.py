"""What many Applications cost: requests, status writes, renders and git processes, counted."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gitsync.objects.record import Push
from gitsync.ports import Snapshot
from gitsync.render.build import Build
from gitsync.workers.pool import RenderPool
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map
from tests.git_processes import GitProcesses
from tests.waiting import until

APPS = [f"app-{number:02}" for number in range(20)]


@pytest.fixture
def fleet(world: World, git_processes: GitProcesses) -> str:
    """Sync many Applications of one repository and return the commit."""
    commit = world.repo.commit("first", {f"{name}/a.yaml": config_map("a", of=name) for name in APPS})
    for name in APPS:
        world.namespace(name)
        world.application(name, sync={"interval": "1h"})
    world.start()
    all_synced(world, commit)
    return commit


def all_synced(world: World, commit: str) -> None:
    until(lambda: all(is_synced(world.status(name), commit) for name in APPS), 60)


def pushed(world: World) -> None:
    """Notify the controller of a push, as a webhook does."""
    world.controller.requests.repository_changed(lambda url: True)


def requests(world: World) -> int:
    """Return the requests of the controller for Applications and their objects; Leases are renewed all the time."""
    resources = ("applications.gitsync.dev", "applications.gitsync.dev/status", "configmaps")
    return sum(world.sandbox.requests(resource=resource, agent="gitsync") for resource in resources)


def requests_by_application(world: World) -> dict[str, int]:
    return {name: world.controller.view.cost(f"{NAMESPACE}/{name}").requests for name in APPS}


def status_writes(world: World) -> int:
    return world.sandbox.requests(verb="update", resource="applications.gitsync.dev/status")


def test_a_first_sync_makes_three_requests_beside_those_for_objects(
    world: World, fleet: str, git_processes: GitProcesses
) -> None:
    """The finalizer and the inventory before the objects, since each has to be stored first, and the result."""
    world.quiet()
    assert world.sandbox.requests(verb="patch", resource="configmaps", agent="gitsync") == len(APPS)
    assert world.sandbox.requests(verb="update", resource="applications.gitsync.dev", agent="gitsync") == len(APPS)
    assert status_writes(world) == 2 * len(APPS)
    assert min(requests_by_application(world).values()) == 4
    assert sum(git_processes.counts().values()) < len(APPS), git_processes.counts()


def test_a_commit_that_affects_one_application_writes_one_status(
    world: World, fleet: str, git_processes: GitProcesses
) -> None:
    world.quiet()
    commit = world.repo.commit("one", {"app-07/a.yaml": config_map("a", of="changed")})
    git_processes.forget()
    before, costs = status_writes(world), requests_by_application(world)
    pushed(world)
    world.synced(commit, "app-07")
    world.quiet()
    after = requests_by_application(world)
    assert {name for name in APPS if after[name] != costs[name]} == {"app-07"}
    assert 2 <= after["app-07"] - costs["app-07"] <= 3, "the object and its status"
    assert status_writes(world) - before <= 2
    assert sum(git_processes.counts().values()) <= 8, git_processes.counts()
    assert world.status("app-08")["revision"]["fetched"] == fleet


def test_a_commit_that_affects_no_application_writes_nothing_also_after_a_restart(world: World, fleet: str) -> None:
    world.quiet()
    world.repo.commit("none", {"README.md": "x"})
    before = requests(world)
    pushed(world)
    world.quiet()
    assert requests(world) == before
    before = status_writes(world)
    world.stop()
    world.start()
    until(lambda: len(world.controller.view.applications()) == len(APPS), 30)
    world.quiet()
    assert status_writes(world) == before


def test_a_push_event_of_files_that_no_application_reads_costs_no_request(
    world: World, fleet: str, git_processes: GitProcesses
) -> None:
    world.quiet()
    unrelated = world.repo.commit("none", {"README.md": "x"})
    before = requests(world)
    git_processes.forget()
    push = Push("main", fleet, unrelated, frozenset({"README.md"}))
    assert world.controller.requests.repository_changed(lambda url: True, push) == len(APPS)
    world.quiet()
    assert requests(world) == before
    assert not git_processes.counts()
    commit = world.repo.commit("one", {"app-07/a.yaml": config_map("a", of="changed")})
    push = Push("main", unrelated, commit, frozenset({"app-07/a.yaml"}))
    world.controller.requests.repository_changed(lambda url: True, push)
    world.synced(commit, "app-07")


def test_a_restart_renders_only_what_git_changed(world: World, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    render = RenderPool.render

    def count(self: RenderPool, snapshot: Snapshot, path: str, *options: Any) -> Build:
        rendered.append(path)
        return render(self, snapshot, path, *options)

    monkeypatch.setattr(RenderPool, "render", count)
    world.stop()
    commit = world.repo.commit("one", {"app-07/a.yaml": config_map("a", of="changed")})
    world.start()
    world.synced(commit, "app-07", timeout=30)
    until(lambda: len(world.controller.view.applications()) == len(APPS), 30)
    world.quiet()
    assert rendered == ["app-07"]
    assert all(view.status["sync"] == "Synced" for view in world.controller.view.applications())


def test_a_requested_sync_reports_the_newest_commit(world: World, fleet: str) -> None:
    newest = world.repo.commit("none", {"README.md": "x"})
    world.controller.requests.request_sync(f"{NAMESPACE}/app-03", "ada")
    world.synced(newest, "app-03")


def test_git_servers_that_never_answer_delay_no_other_application(world: World) -> None:
    healthy = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        port = silent.getsockname()[1]
        for number in range(20):
            world.application(f"app-{number:02}", source={"repoURL": f"https://127.0.0.1:{port}/{number}.git"})
        world.start()
        until(lambda: world.controller.requests.queue_length() == 0, 20)
        world.application()
        world.synced(healthy, timeout=30)  # one after the other, their queries would take 200 s


def test_a_changed_value_that_the_api_server_stores_as_it_is_costs_one_request(world: World, fleet: str) -> None:
    """No dry run precedes the write: the value before shows how the API server stores it."""
    world.quiet()
    before, written = world.sandbox.requests(resource="configmaps", agent="gitsync"), status_writes(world)
    commit = world.repo.commit("all", {f"{name}/a.yaml": config_map("a", of="another") for name in APPS})
    pushed(world)
    all_synced(world, commit)
    world.quiet()
    assert world.sandbox.requests(resource="configmaps", agent="gitsync") - before == len(APPS)
    assert status_writes(world) - written == len(APPS)
