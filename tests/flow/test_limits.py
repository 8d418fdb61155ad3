"""A commit whose numbers in Prometheus are over their limit is rolled back, held, or left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.integrations.fake_prometheus import Served, prometheus, vector
from tests.waiting import never, until

QUERY = "sum(rate(errors_total[1m]))"
BAD = vector(({"pod": "web-7"}, "0.31"), ({"pod": "web-8"}, "0.01"))
FINE = vector(({"pod": "web-7"}, "0.01"))


@pytest.fixture
def server() -> Iterator[Served]:
    with prometheus() as served:
        served.default = FINE
        yield served


def limited(on_degraded: str, timeout: str = "2s", lasting: str = "0s") -> dict[str, Any]:
    query = {"name": "error rate", "prometheusQuery": QUERY, "max": "0.05", "for": lasting}
    return {"postSync": {"onDegraded": on_degraded, "healthTimeout": timeout, "queries": [query]}}


def started(world: World, server: Served, sync: dict[str, Any]) -> str:
    """Return a commit that was watched and is good, of an application that is synced by a running controller."""
    good = world.repo.commit("good", {"shop/web.yaml": config_map("web", release="1")})
    world.application(sync=sync)
    world.start(prometheus=server.url)
    until(lambda: world.status().get("revision", {}).get("good") == good, 20, world.status)
    return good


def released(world: World, release: str = "2") -> str:
    return world.repo.commit("release", {"shop/web.yaml": config_map("web", release=release)})


def release(world: World) -> str:
    """Return what runs; it is healthy at once, since what counts here are numbers."""
    found = world.get("ConfigMap", "web")
    assert found is not None
    return str(found["data"]["release"])


def test_a_commit_over_its_limit_is_rolled_back_until_git_has_a_newer_one(world: World, server: Served) -> None:
    good = started(world, server, limited("Rollback"))
    assert world.condition("WithinLimits")["message"] == "error rate is within its limit after 2s"
    assert "postSync" not in world.status()
    server.default = BAD
    bad = released(world)
    said = (
        f'error rate 0.31 {{pod="web-7"}} is over 0.05: rolled back to {good[:12]} until there is a newer commit than '
    )
    until(lambda: world.condition("Ready")["message"] == said + bad[:12], describe=world.status)
    until(lambda: world.condition("WithinLimits")["reason"] == "OverLimit", describe=world.status)
    assert world.view().status["pinned"]["commit"] == good
    until(lambda: release(world) == "1", 10)
    records = until(lambda: [r for r in world.controller.records.history() if r.trigger == "rollback"], 10)
    assert records[0].explanation.startswith(said)
    audited = world.controller.records.audit_records(f"{NAMESPACE}/shop", action="post-sync")
    assert [(record.outcome.value, record.commit, record.message) for record in audited] == [
        ("Failed", bad, said + bad[:12])
    ]
    server.default = FINE
    better = released(world, "3")
    until(lambda: world.status()["revision"].get("good") == better, 20, world.status)
    assert release(world) == "3"
    assert "pinned" not in world.status()
    assert set(server.queries) == {QUERY}


def test_a_commit_over_its_limit_is_held_for_a_person(world: World, server: Served) -> None:
    started(world, server, limited("Hold"))
    server.default = BAD
    bad = released(world)
    until(lambda: world.condition("Ready").get("reason") == "Held", 20, world.status)
    assert release(world) == "2"
    until(lambda: "error rate 0.31" in world.condition("Ready")["message"], describe=world.status)
    record = world.controller.records.history()[0]
    assert (record.trigger, record.outcome.value, record.commit.id) == ("post-sync", "Held", bad)
    assert world.status()["history"][0]["outcome"] == "Held"


def test_a_commit_over_its_limit_may_only_be_said_to_be(world: World, server: Served) -> None:
    good = started(world, server, limited("Ignore"))
    server.default = BAD
    bad = released(world)
    until(lambda: world.status().get("postSync", {}).get("verdict"), 20, world.status)
    until(lambda: world.condition("Ready")["status"] == "True", 10, world.status)
    until(lambda: "error rate 0.31" in world.condition("Ready")["message"], describe=world.status)
    assert world.condition("WithinLimits")["status"] == "False"
    asked = len(server.queries)
    world.controller.requests.poll_now([f"{NAMESPACE}/shop"])
    never(lambda: len(server.queries) > asked, 1.0)
    assert release(world) == "2"
    assert world.status()["revision"]["good"] == good, "what was over its limit is not gone back to"
    records = [r for r in world.controller.records.history() if r.trigger == "post-sync"]
    assert [(record.outcome.value, record.commit.id) for record in records] == [("Failed", bad)]


def test_a_number_that_is_over_only_briefly_is_borne(world: World, server: Served) -> None:
    started(world, server, limited("Rollback", lasting="1h"))
    server.default = BAD
    brief = released(world)
    until(lambda: world.condition("WithinLimits").get("reason") == "OverLimit", 20, world.status)
    until(lambda: "it fails after 1h" in world.condition("Ready")["message"], 10, world.status)
    server.default = FINE
    until(lambda: world.status()["revision"].get("good") == brief, 20, world.status)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(vector(({}, "NaN")), "the query gives NaN", id="NaN"),
        pytest.param(vector(), "the query gives no data", id="no series"),
        pytest.param((503, b"<html>"), "Prometheus answered 503", id="a server that is overloaded"),
    ],
)
def test_what_nobody_can_tell_is_said_and_rolls_nothing_back(
    world: World, server: Served, answer: tuple[int, bytes], said: str
) -> None:
    server.default = answer
    commit = released(world)
    world.application(sync=limited("Rollback"))
    world.start(prometheus=server.url)
    until(lambda: said in world.condition("WithinLimits").get("message", ""), 20, world.status)
    until(lambda: world.status()["revision"].get("good") == commit, 20, world.status)
    assert world.condition("WithinLimits")["status"] == "Unknown"
    assert world.condition("WithinLimits")["message"] == f"error rate: {said}; good by its health alone"
    assert "pinned" not in world.status()


def test_without_a_server_the_operator_is_named(world: World) -> None:
    commit = released(world)
    world.application(sync=limited("Rollback"))
    world.start()
    until(lambda: world.status().get("revision", {}).get("good") == commit, 20, world.status)
    assert "the operator names no Prometheus server" in world.condition("WithinLimits")["message"]


def test_a_restart_goes_on_with_the_watch(world: World, server: Served) -> None:
    server.default = BAD
    commit = released(world)
    world.application(sync=limited("Rollback", timeout="1h", lasting="1h"))
    world.start(prometheus=server.url)
    watched = until(lambda: world.status().get("postSync", {}).get("over") and world.status()["postSync"], 20)
    assert watched["commit"] == commit
    world.stop()
    asked = len(server.queries)
    world.start(prometheus=server.url)
    until(lambda: len(server.queries) > asked, 20)
    until(lambda: world.controller.view.application(f"{NAMESPACE}/shop"), 10)
    assert world.view().status["postSync"] == watched, "since when it is watched, and over its limit, stays"
    world.application(sync=limited("Hold", timeout="1h", lasting="1s"))
    until(lambda: "is over 0.05 for 1s: held" in world.condition("Ready")["message"], 20, world.status)


def test_with_automation_off_a_rollback_that_is_asked_for_happens(world: World, server: Served) -> None:
    good = started(world, server, limited("Rollback"))
    world.application(sync=limited("Rollback") | {"automated": False})
    server.default = BAD
    bad = released(world)
    until(lambda: world.status().get("phase") == "Pending", 10, world.status)
    world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    until(lambda: world.status().get("pinned", {}).get("instead") == bad, 20, world.status)
    until(lambda: release(world) == "1", 10)
    assert world.status()["pinned"]["commit"] == good
