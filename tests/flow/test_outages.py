"""The API server is down, slow, stale or rejects: requests are few, nothing is guessed, syncs resume automatically."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.cluster.service_accounts import kubeconfig_of
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map
from tests.flow.tcp_proxy import Proxy
from tests.waiting import until

MAPS = "configmaps"


def ready(world: World, count: int = 1) -> str:
    """Sync an application of some objects."""
    first = world.repo.commit("first", {f"shop/{n}.yaml": config_map(f"a{n}", x="1") for n in range(count)})
    world.application()
    world.start()
    world.synced(first)
    return first


def requests(world: World, verb: str) -> int:
    return world.sandbox.requests(verb=verb, resource=MAPS)


def data(world: World, name: str = "a0") -> object:
    return (world.get("ConfigMap", name) or {}).get("data")


def test_while_the_line_is_down_connections_are_few_and_afterwards_it_converges(world: World, line: Proxy) -> None:
    ready(world, 3)
    line.down(True)
    second = world.repo.commit("second", {"shop/0.yaml": None, "shop/1.yaml": config_map("a1", x="2")})
    until(lambda: world.view().status["sync"] == "Unknown", 10, lambda: world.view().status)
    before = line.connections
    began = time.monotonic()
    for _ in range(40):
        time.sleep(0.1)
        assert world.view().status["sync"] == "Unknown"
    assert line.connections - before < 10 * (time.monotonic() - began)
    assert data(world) == {"x": "1"}
    line.down(False)
    world.synced(second, timeout=60)
    assert data(world) is None


def test_a_line_that_flaps_makes_no_false_statement_and_no_delete(world: World, line: Proxy) -> None:
    first = ready(world, 3)
    for _ in range(8):
        line.down(True)
        time.sleep(0.2)
        line.down(False)
        time.sleep(0.3)
    assert [data(world, f"a{n}") for n in range(3)] == [{"x": "1"}] * 3
    assert requests(world, "delete") == 0
    second = world.repo.commit("second", {"shop/0.yaml": config_map("a0", x="2")})
    world.synced(second, timeout=60)
    audited = world.controller.records.audit_records(limit=100)
    assert {record.commit for record in audited} <= {first, second}


def test_a_watch_that_says_nothing_more_is_taken_up_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.cluster.client._WATCH_READ", 1.0)
    world.sandbox.inject(InjectedFault(FaultKind.HALF_OPEN_WATCH, verb="watch", resource=MAPS, count=1, seconds=1.0))
    ready(world)
    time.sleep(1.2)  # from now on the first watch is mute
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a0", {})
    until(lambda: data(world) == {"x": "1"}, 10, world.status)


def test_a_stale_list_deletes_nothing_that_was_made_anew(world: World) -> None:
    """A replica of the API server that is behind shows an object of another uid: the delete names the uid it knows."""
    ready(world, 2)
    old = world.get("ConfigMap", "a0")
    assert old is not None
    world.stop()
    world.sandbox.inject(InjectedFault(FaultKind.STALE_READ, verb="list", resource=MAPS))
    world.sandbox.inject(InjectedFault(FaultKind.HALF_OPEN_WATCH, verb="watch", resource=MAPS))
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a0", {})
    world.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a0", "namespace": "shop"}, "data": {"y": "1"}}
    )
    second = world.repo.commit("second", {"shop/0.yaml": None})
    world.start()
    # The watch may tell of the new object right before it falls silent; then there is nothing to delete any more.
    until(lambda: requests(world, "delete") >= 2 or is_synced(world.status(), second), 30, world.status)
    assert data(world) == {"y": "1"}


def test_a_list_that_expires_on_its_second_page_is_read_at_once_and_nothing_is_concluded_meanwhile(
    world: World,
) -> None:
    first = ready(world, 2)
    for n in range(520):
        world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"n{n}", "namespace": "default"}})
    world.stop()
    fault = InjectedFault(FaultKind.ERROR, verb="list", resource=MAPS, code=410, every=2)
    world.sandbox.inject(fault)
    before = requests(world, "list")
    second = world.repo.commit("second", {"shop/0.yaml": config_map("a0", x="2")})
    world.start()
    world.synced(second, timeout=20)
    assert requests(world, "list") - before == 3
    assert requests(world, "delete") == 0
    written = [record for record in world.controller.records.audit_records(limit=50) if record.commit == second]
    assert {record.resource for record in written} == {"/ConfigMap/shop/a0"}
    assert first != second


def test_what_is_refused_for_good_is_not_asked_for_over_and_over(world: World) -> None:
    first = ready(world, 4)
    for number, code in enumerate((403, 413, 422)):
        world.sandbox.inject(InjectedFault(FaultKind.ERROR, verb="patch", resource=MAPS, name=f"a{number}", code=code))
    world.repo.commit("second", {f"shop/{n}.yaml": config_map(f"a{n}", x="2") for n in range(4)})
    until(lambda: data(world, "a3") == {"x": "2"}, 10)
    assert world.in_phase("Failed")["revision"]["applied"] == first
    before = requests(world, "patch")
    began = time.monotonic()
    time.sleep(6)
    minutes = (time.monotonic() - began) / 60
    assert requests(world, "patch") - before <= 3 * (1 + 5 * minutes), "five tries a minute at most for each"
    world.sandbox.clear_faults()
    third = world.repo.commit("third", {f"shop/{n}.yaml": config_map(f"a{n}", x="3") for n in range(4)})
    world.synced(third, timeout=10)


def test_a_token_that_expires_while_it_runs_is_read_again(world: World, tmp_path: Path) -> None:
    path = kubeconfig_of(world.sandbox, world.cluster, tmp_path / "first", {NAMESPACE, "shop"})
    world.kubeconfig = path
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a0", x="1")})
    world.application()
    world.start(namespaces=f"{NAMESPACE},shop", install_crds=False)
    world.synced(first)
    world.sandbox.advance(2 * 3600)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a0", x="2")})
    until(lambda: "credentials" in str(world.view().status.get("conditions")), 10, lambda: world.view().status)
    assert data(world) == {"x": "1"}
    renewed = kubeconfig_of(world.sandbox, world.cluster, tmp_path / "second", {NAMESPACE, "shop"})
    path.write_text(renewed.read_text())
    world.synced(second, timeout=30)


def test_an_application_whose_status_is_refused_is_not_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.sync.status.writer.OUTAGE_PAUSE", 1.0)
    world.sandbox.inject(
        InjectedFault(FaultKind.ERROR, verb="update", resource="applications.gitsync.dev", code=413, count=2)
    )
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a0", x="1")})
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(commit, timeout=10)


@pytest.mark.parametrize("change", ["commit", "drift"])
def test_what_an_outage_stopped_is_retried_soon_whatever_the_retry_policy(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("gitsync.sync.executor.OUTAGE_PAUSE", 1.0)
    wanted = world.repo.commit("first", {"shop/a.yaml": config_map("a0", x="1")})
    world.application(sync={"retry": {"backoff": {"initial": "1h", "max": "1h"}}})
    world.start()
    world.synced(wanted)
    world.sandbox.inject(InjectedFault(FaultKind.ERROR, verb="patch", resource=MAPS, code=500, count=4))
    if change == "commit":
        world.repo.commit("second", {"shop/a.yaml": config_map("a0", x="2")})
    else:
        edited = {**(world.get("ConfigMap", "a0") or {}), "data": {"x": "3"}}
        world.client.send("PUT", "/api/v1/namespaces/shop/configmaps/a0", edited)
    until(lambda: data(world) == {"x": "2" if change == "commit" else "1"}, describe=world.status)
