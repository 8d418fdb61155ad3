"""Objects move between Applications, and files are renamed and split, under load and faults: none is ever deleted."""

from __future__ import annotations

import os
import random

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until

IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
APPS = [f"app-{number:02}" for number in range(50 if IS_COMPLETE else 12)]
OBJECTS = [f"o{number}" for number in range(3 * len(APPS))]
ROUNDS = 10 if IS_COMPLETE else 3
FAULTS = (
    InjectedFault(FaultKind.DROP_WATCH, verb="watch", count=2),
    InjectedFault(FaultKind.THROTTLE, verb="patch", resource="configmaps", count=5, seconds=0.1),
    InjectedFault(FaultKind.ERROR, verb="update", resource="applications.gitsync.dev/status", count=5, code=500),
    InjectedFault(FaultKind.LOST_REPLY, verb="patch", resource="configmaps", count=3),
    InjectedFault(FaultKind.LATENCY, verb="patch", resource="configmaps", count=20, seconds=0.2),
    InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", count=1),
)


def owners(world: World) -> dict[str, tuple[str, str]]:
    """Return the uid and the Application of each live object."""
    items = world.client.get("/api/v1/namespaces/shop/configmaps")["items"]
    found = {item["metadata"]["name"]: item["metadata"] for item in items}
    return {
        name: (meta["uid"], (meta.get("labels") or {}).get("gitsync.dev/application", ""))
        for name, meta in found.items()
        if name in OBJECTS
    }


def files_of(shares: dict[str, str], file_of: dict[str, str]) -> dict[str, str]:
    """Return the files that declare each object in the folder of its Application; files may hold several objects."""
    texts: dict[str, list[str]] = {f"{name}/own.yaml": [config_map(f"own-{name}", x="1")] for name in APPS}
    for name, app in shares.items():
        texts.setdefault(f"{app}/{file_of[name]}.yaml", []).append(config_map(name, x="1"))
    return {path: "---\n".join(documents) for path, documents in texts.items()}


@pytest.mark.parametrize("seed", range(3 if IS_COMPLETE else 1))
@pytest.mark.timeout(900)
def test_objects_that_move_between_applications_are_never_deleted(world: World, seed: int) -> None:
    chance = random.Random(seed)
    before: dict[str, str] = {}

    def commit() -> dict[str, str]:
        shares = {name: chance.choice(APPS) for name in OBJECTS}
        files = files_of(shares, {name: chance.choice("abc") for name in OBJECTS})
        removed: dict[str, str | None] = dict.fromkeys(before.keys() - files.keys())
        world.repo.commit("shuffle", {**removed, **files})
        before.clear()
        before.update(files)
        return shares

    shares = commit()
    for name in APPS:
        interval = chance.choice(["1s", "2s", "1h"])
        world.application(name, destination={"namespace": "shop"}, sync={"interval": interval})
    world.start()
    until(lambda: {name: app for name, (_, app) in owners(world).items()} == shares, 120)
    uids = {name: uid for name, (uid, _) in owners(world).items()}
    for _ in range(ROUNDS):
        world.sandbox.inject(chance.choice(FAULTS))
        for _ in range(chance.choice([1, 2])):  # also a commit that follows before all have declared the one before
            shares = commit()
        until(lambda wanted=shares: {name: app for name, (_, app) in owners(world).items()} == wanted, 120)
        assert {name: uid for name, (uid, _) in owners(world).items()} == uids
    assert world.sandbox.requests(verb="delete", resource="configmaps") == 0
