"""Objects move between Applications, and files are renamed and split, under load and faults: none is ever deleted."""

from __future__ import annotations

import json
import os
import random

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until

IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
APPS = [f"app-{number:02}" for number in range(50 if IS_COMPLETE else 12)]
OBJECTS = [f"o{number}" for number in range(3 * len(APPS))]
ROUNDS = 10 if IS_COMPLETE else 3
FAULTS = (
    InjectedFault(FaultKind.DROP_WATCH, verb="watch", count=2),
    InjectedFault(FaultKind.THROTTLE, verb="patch", resource="configmaps", count=5, seconds=0.1),
    InjectedFault(FaultKind.ERROR, verb="update", resource="applications.gitsync.dev", count=5, code=500),
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


def child(name: str, path: str = "", **spec: object) -> str:
    """Return the manifest of an Application that an app of apps declares."""
    manifest = {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "source": {"repoURL": "REPOSITORY", "path": path or name},
            "destination": {"namespace": "shop"},
            "sync": {"interval": "1s"},
            **spec,
        },
    }
    return json.dumps(manifest)


def declare(world: World, message: str, files: dict[str, str | None]) -> None:
    url = world.repo.url
    world.repo.commit(message, {path: text and text.replace("REPOSITORY", url) for path, text in files.items()})


def large(name: str) -> str:
    """Return a ConfigMap that takes a second to render."""
    return config_map(name, **{f"key-{number}": "v" for number in range(20_000)})


def uids(world: World) -> dict[str, str]:
    items = world.client.get("/api/v1/namespaces/shop/configmaps")["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def is_of(world: World, name: str, application: str) -> bool:
    path = f"/api/v1/namespaces/shop/configmaps/{name}"
    labels = world.client.get(path)["metadata"].get("labels") or {}
    return bool(labels.get("gitsync.dev/application") == application)


def test_a_child_that_is_renamed_keeps_its_objects(world: World) -> None:
    objects = {"large.yaml": large("large"), "small.yaml": config_map("small", x="1")}
    old = {f"shop-old/{file}": text for file, text in objects.items()}
    declare(world, "one", {"root/shop.yaml": child("shop-old"), **old})
    world.namespace("shop")
    world.application("root", risk={"approval": "Never"}, destination={"namespace": "shop"})
    world.start()
    until(lambda: world.status("shop-old").get("phase") == "Synced", 60, world.statuses)
    before = uids(world)

    new = {f"shop-new/{file}": text for file, text in objects.items()}
    declare(world, "rename", {"root/shop.yaml": child("shop-new"), **new, **dict.fromkeys(old)})
    until(lambda: is_of(world, "small", "shop-new") and is_of(world, "large", "shop-new"), 60)
    until(lambda: world.status("shop-new").get("phase") == "Synced", 60, world.statuses)
    assert uids(world) == before


def test_an_object_of_a_deleted_child_moves_to_another_one(world: World) -> None:
    children = {"root/a.yaml": child("a"), "root/b.yaml": child("b")}
    declare(world, "one", {**children, "a/large.yaml": large("large"), "b/small.yaml": config_map("small", x="1")})
    world.namespace("shop")
    world.application("root", risk={"approval": "Never"}, destination={"namespace": "shop"})
    world.start()
    until(lambda: all(world.status(name).get("phase") == "Synced" for name in "ab"), 60, world.statuses)
    before = uids(world)

    moved = {"root/b.yaml": None, "b/small.yaml": None, "a/small.yaml": config_map("small", x="1")}
    declare(world, "move", {**moved, "a/large.yaml": large("large").replace(": v", ": w", 1)})
    until(lambda: is_of(world, "small", "a"), 60)
    assert uids(world) == before


def test_of_applications_created_together_one_writes_what_all_declare(world: World) -> None:
    names = ("fc", "fb", "fa")
    world.repo.commit("all declare a", {f"{name}/a.yaml": config_map("a", x=name) for name in names})
    for name in names:
        world.application(name, destination={"namespace": "shop"})
    items = world.client.get(f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications")["items"]
    oldest, *others = sorted((item["metadata"]["creationTimestamp"], item["metadata"]["name"]) for item in items)
    world.start()

    def are_decided() -> bool:
        texts = [str(world.status(name).get("conditions")) for _, name in others]
        return world.status(oldest[1]).get("sync") == "Synced" and all("declares it too" in text for text in texts)

    until(are_decided, 60.0, world.statuses)
    live = world.get("ConfigMap", "a")
    assert live is not None
    assert live["data"] == {"x": oldest[1]}
    writes = world.controller.records.audit_records(limit=100)
    assert {record.application for record in writes if record.resource.endswith("/a")} == {f"{NAMESPACE}/{oldest[1]}"}


def test_applications_that_are_deleted_together_leave_nothing(world: World) -> None:
    pairs = [(f"first-{number}", f"second-{number}", f"shared-{number}") for number in range(4)]
    files = {f"{name}/a.yaml": config_map(shared, x="1") for *names, shared in pairs for name in names}
    world.repo.commit("all declare what another one declares", files)
    for *names, _ in pairs:
        for name in names:
            world.application(name, destination={"namespace": "shop"})
    world.start()

    def is_refused(name: str) -> bool:
        return "declares it too" in str(world.status(name).get("conditions"))

    until(lambda: all(any(map(is_refused, names)) for *names, _ in pairs), 60.0, world.statuses)
    applications = f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications"
    for *names, _ in pairs:
        # the owner first: it leaves the object to the other one, which may be deleted before it has taken it over
        for name in sorted(names, key=is_refused):
            world.client.send("DELETE", f"{applications}/{name}", {})
    until(lambda: world.client.get(applications)["items"] == [], 60.0, world.statuses)
    until(lambda: all(world.get("ConfigMap", shared) is None for *_, shared in pairs), 60.0)
