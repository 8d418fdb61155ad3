"""kill -9 at any moment of a sync, and a restart: the same end state, nothing orphaned, the audit complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = 60


def controller(world: World) -> subprocess.Popen[bytes]:
    script = [sys.executable, "-m", "tests.flow.controller_process", str(world.kubeconfig), str(world.folder / "data")]
    return subprocess.Popen(script, cwd=ROOT)


def names(world: World) -> set[str]:
    answer = world.client.get("/api/v1/namespaces/shop/configmaps")
    found = {item["metadata"]["name"] for item in answer["items"]}
    return found - {"kube-root-ca.crt"}  # every namespace has it


def inventory(world: World) -> set[str]:
    return {entry["id"].rpartition("/")[2] for entry in world.status().get("inventory", [])}


@pytest.mark.parametrize("progress", [1, 20, 59])
def test_a_controller_killed_while_it_applies_goes_on_after_a_restart(world: World, progress: int) -> None:
    files: dict[str, str | None] = {f"shop/c{n}.yaml": config_map(f"c{n}", x="1") for n in range(OBJECTS)}
    commit = world.repo.commit("many", files)
    running = controller(world)
    try:
        until(lambda: world.cluster.resource("gitsync.dev", "v1alpha1", "Application"), 20)
        world.application()
        until(lambda: len(names(world)) >= progress, 20)
    finally:
        running.kill()
        running.wait()
    assert names(world) <= inventory(world), "a written object is not in the inventory"
    world.start()
    status = world.synced(commit, timeout=20)
    assert names(world) == inventory(world) == {f"c{n}" for n in range(OBJECTS)}
    assert status["resources"]["total"] == OBJECTS
    assert world.controller.records.unresolved() == ()
    assert world.controller.records.verify() == ()
    audited = {r.resource for r in world.controller.records.audit_records(limit=1000) if r.outcome.value == "Succeeded"}
    assert audited == {f"/ConfigMap/shop/c{n}" for n in range(OBJECTS)}


def test_a_controller_killed_while_it_prunes_leaves_no_orphan(world: World) -> None:
    files: dict[str, str | None] = {f"shop/c{n}.yaml": config_map(f"c{n}", x="1") for n in range(OBJECTS)}
    first = world.repo.commit("many", files)
    running = controller(world)
    try:
        until(lambda: world.cluster.resource("gitsync.dev", "v1alpha1", "Application"), 20)
        world.application(risk={"maxDeletes": 100, "approval": "Never"})
        world.synced(first, timeout=20)
        second = world.repo.commit("fewer", {f"shop/c{n}.yaml": None for n in range(35, OBJECTS)})
        until(lambda: len(names(world)) < OBJECTS - 3, 20, world.status)
    finally:
        running.kill()
        running.wait()
    world.start()
    world.synced(second, timeout=20)
    assert names(world) == inventory(world) == {f"c{n}" for n in range(35)}
    assert world.controller.records.unresolved() == ()
    assert world.controller.records.verify() == ()


def test_records_survive_beside_a_second_reader(world: World) -> None:
    commit = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    world.start()
    world.application()
    world.synced(commit)
    reader = SqlRecords(RecordDatabase(f"sqlite:///{world.folder / 'data' / 'history.db'}"))
    try:
        assert [record.commit.id for record in reader.history("gitsync/shop")] == [commit]
    finally:
        reader.close()
