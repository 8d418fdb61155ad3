"""Many Applications change while the API server fails: all end Synced, and only what Git removed is deleted."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.flow.environment import World, is_synced
from tests.flow.factories import config_map
from tests.flow.tcp_proxy import Proxy
from tests.waiting import until

IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
APPS = [f"app-{number:04}" for number in range(1000 if IS_COMPLETE else 12)]
PRUNING = APPS[::2]
OUTAGE = 60.0 if IS_COMPLETE else 2.0
TIMEOUT = 900.0 if IS_COMPLETE else 60.0
MAPS, APPLICATIONS = "configmaps", "applications.gitsync.dev"
THROTTLED = tuple(
    InjectedFault(FaultKind.THROTTLE, verb=verb, resource=resource, agent="gitsync", seconds=1, every=3)
    for verb in ("create", "update", "patch", "delete")
    for resource in (MAPS, APPLICATIONS)
)
EXPIRING = tuple(
    fault
    for resource in (MAPS, APPLICATIONS)
    for fault in (
        InjectedFault(FaultKind.ERROR, verb="list", resource=resource, code=410, every=2),
        InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", resource=resource, seconds=1),
    )
)
FAULTS = {
    "each watch is dropped after 2 s": (InjectedFault(FaultKind.DROP_WATCH, verb="watch", seconds=2),),
    "each second page of a list has expired": EXPIRING,
    "a third of the writes is throttled": THROTTLED,
}


def live(world: World) -> dict[str, tuple[str, str]]:
    """Return the uid and the value of each declared object."""
    items = world.sandbox.call(lambda cluster: [*cluster.everything("shop")])
    maps = [item for item in items if item["kind"] == "ConfigMap" and item["metadata"]["name"].startswith("app-")]
    return {item["metadata"]["name"]: (item["metadata"]["uid"], item["data"]["x"]) for item in maps}


def wait(world: World, commit: str) -> None:
    def late() -> list[tuple[str, dict[str, Any]]]:
        return [(name, status) for name, status in world.statuses().items() if not is_synced(status, commit)]

    until(lambda: not late(), TIMEOUT, lambda: (len(late()), late()[:2]))


def begin(world: World) -> dict[str, str]:
    """Sync all Applications and return the uids of their objects."""
    files: dict[str, str | None] = {
        f"{name}/{part}.yaml": config_map(f"{name}-{part}", x="1") for name in APPS for part in "ab"
    }
    commit = world.repo.commit("first", files)
    for name in APPS:
        world.application(name, destination={"namespace": "shop"}, sync={"interval": "1h"})
    world.start()
    wait(world, commit)
    return {name: uid for name, (uid, _) in live(world).items()}


def change(world: World) -> str:
    """Change an object of every Application, remove one of every second, and notify the controller of the push."""
    files: dict[str, str | None] = {f"{name}/a.yaml": config_map(f"{name}-a", x="2") for name in APPS}
    commit = world.repo.commit("second", {**files, **{f"{name}/b.yaml": None for name in PRUNING}})
    world.controller.requests.repository_changed(lambda url: True)
    return commit


def check(world: World, uids: dict[str, str]) -> None:
    """Assert that the objects that Git declares are the same ones as before, with the new values, and no others."""
    kept = {f"{name}-b": (uids[f"{name}-b"], "1") for name in APPS if name not in PRUNING}
    changed = {f"{name}-a": (uids[f"{name}-a"], "2") for name in APPS}
    assert live(world) == kept | changed
    assert world.controller.records.unresolved() == ()


@pytest.mark.timeout(2400 if IS_COMPLETE else 300)
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_many_applications_end_synced_while_requests_fail(
    world: World, faults: tuple[InjectedFault, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.cluster.watch._PAGE", str(len(APPS) // 2))
    uids = begin(world)
    for fault in faults:
        world.sandbox.inject(fault)
    world.stop()
    world.start()  # all is listed again
    commit = change(world)
    wait(world, commit)
    check(world, uids)


@pytest.mark.timeout(2400 if IS_COMPLETE else 300)
def test_many_applications_end_synced_after_an_outage(world: World, line: Proxy) -> None:
    uids = begin(world)
    commit = change(world)
    until(lambda: any(value == "2" for _, value in live(world).values()), TIMEOUT)  # some syncs are under way
    line.down(True)
    time.sleep(OUTAGE)
    line.down(False)
    wait(world, commit)
    check(world, uids)
