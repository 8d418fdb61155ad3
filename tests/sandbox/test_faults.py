"""Faults: each strikes what it names, as often as it says, and nothing else."""

from __future__ import annotations

import http.client
import time

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client
from tests.waiting import is_readable, until

MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_fault_strikes_what_it_names_as_often_as_it_says(fresh: Client) -> None:
    fresh.sandbox.inject(
        InjectedFault(FaultKind.ERROR, verb="create", resource="configmaps", skip=1, count=2, code=503)
    )
    asked = [fresh.ask("POST", MAPS, {"metadata": {"name": f"c{number}"}}).status for number in range(5)]
    assert asked == [201, 503, 503, 201, 201]
    assert fresh.get(MAPS).status == 200


def test_a_fault_may_strike_one_object_user_or_agent(fresh: Client) -> None:
    fresh.create(MAPS, "a")
    fresh.create(MAPS, "b")
    fresh.sandbox.inject(InjectedFault(FaultKind.CONFLICT, verb="patch", name="a"))
    assert fresh.merge(f"{MAPS}/a", {"data": {"x": "1"}}).json["reason"] == "Conflict"
    assert fresh.merge(f"{MAPS}/b", {"data": {"x": "1"}}).status == 200
    fresh.sandbox.clear_faults()
    fresh.sandbox.inject(InjectedFault(FaultKind.ERROR, agent="flaky"))
    assert fresh.get(MAPS, User_Agent="flaky/1").status == 500
    assert fresh.get(MAPS).status == 200


def test_throttling_says_when_to_come_back(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.THROTTLE, seconds=2, count=1))
    answer = fresh.get(MAPS)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "2")


def test_an_error_after_the_commit_leaves_the_object(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.ERROR_AFTER, verb="create", count=1))
    assert fresh.ask("POST", MAPS, {"metadata": {"name": "c"}}).status == 500
    assert fresh.get(f"{MAPS}/c").status == 200


def test_a_lost_reply_cuts_the_connection_after_the_commit(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.LOST_REPLY, verb="create", count=1))
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        fresh.ask("POST", MAPS, {"metadata": {"name": "c"}})
    assert fresh.get(f"{MAPS}/c").status == 200


def test_latency_delays_one_answer_and_no_other(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.LATENCY, resource="configmaps", seconds=600))
    connection = fresh.connect()
    fresh.send(connection, "GET", MAPS)
    fresh.get("/api/v1/namespaces/default/secrets")
    assert not is_readable(connection.sock), "the delayed answer arrives later"
    connection.close()
    fresh.sandbox.clear_faults()
    fresh.sandbox.inject(InjectedFault(FaultKind.LATENCY, resource="configmaps", seconds=0.3))
    begin = time.monotonic()
    assert fresh.get(MAPS).status == 200
    assert time.monotonic() - begin >= 0.3


def test_each_third_request_fails_until_the_count_is_reached(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.ERROR, verb="get", skip=1, count=6, every=3, code=503))
    answers = [fresh.get(f"{MAPS}/x").status for _ in range(10)]
    assert answers == [404, 404, 404, 503, 404, 404, 503, 404, 404, 404]


def test_a_dropped_watch_is_cut(fresh: Client) -> None:
    with fresh.watch(f"{MAPS}?watch=1") as watch:
        fresh.sandbox.inject(InjectedFault(FaultKind.DROP_WATCH, resource="configmaps", count=1))
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            watch.response.read()


def test_an_expired_watch_ends_with_410(fresh: Client) -> None:
    with fresh.watch(f"{MAPS}?watch=1") as watch:
        fresh.sandbox.inject(InjectedFault(FaultKind.EXPIRE_WATCH, count=1))
        event = watch.event()
        assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
        assert watch.event() is None


def test_a_half_open_watch_says_nothing_more(fresh: Client) -> None:
    with fresh.watch(f"{MAPS}?watch=1") as watch:
        fresh.create(MAPS, "before")
        assert watch.event()["object"]["metadata"]["name"] == "before"
        fresh.sandbox.inject(InjectedFault(FaultKind.HALF_OPEN_WATCH, count=1))
        fresh.create(MAPS, "after")
        assert watch.next_within(0.3) is None


def test_a_fault_befalls_watches_to_come_after_its_delay(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", seconds=0.05, count=1))
    with fresh.watch(f"{MAPS}?watch=1") as watch:
        assert watch.event()["type"] == "ERROR"


def test_stale_reads_show_the_past_until_they_are_cleared(fresh: Client) -> None:
    fresh.create(MAPS, "old")
    fresh.sandbox.inject(InjectedFault(FaultKind.STALE_READ, resource="configmaps"))
    fresh.create(MAPS, "new")
    assert fresh.get(MAPS).names == ["old"]
    assert fresh.get(f"{MAPS}/new").status == 404
    fresh.sandbox.clear_faults()
    assert fresh.get(MAPS).names == ["new", "old"]


def test_faults_are_set_and_shown_over_http(fresh: Client) -> None:
    fault = {"kind": "error", "verb": "get", "code": 502, "count": 1}
    assert fresh.ask("POST", "/sandbox/faults", fault).status == 201
    assert fresh.get(f"{MAPS}/x").status == 502
    assert fresh.get("/sandbox/faults").json["faults"][0]["fitted"] == 1
    fresh.ask("DELETE", "/sandbox/faults")
    assert fresh.get("/sandbox/faults").json == {"faults": []}


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "odd"},
        {"kind": "error", "verbs": "get"},
        {"kind": "error", "skip": "a"},
        {"kind": "error", "count": -1},
        {"kind": "error", "every": "2"},
        [],
    ],
)
def test_a_fault_that_is_none_is_refused(fresh: Client, fault: object) -> None:
    assert fresh.ask("POST", "/sandbox/faults", fault).status == 400


def test_the_clock_is_moved_over_http(fresh: Client) -> None:
    before = fresh.get("/sandbox/clock").json["now"]
    assert fresh.ask("POST", "/sandbox/clock", {"advance": 86400}).json["now"] > before
    assert fresh.ask("POST", "/sandbox/clock", {"speed": -1}).status == 400
    assert fresh.ask("POST", "/sandbox/clock", {"sped": 1}).status == 400


def test_a_definition_is_established_late_on_demand(fresh: Client) -> None:
    fresh.sandbox.inject(InjectedFault(FaultKind.SLOW_ESTABLISHING, seconds=0.3))
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    begin = time.monotonic()
    assert fresh.ask("POST", path, {"metadata": {"name": "things.example.com"}, "spec": spec}).status == 201
    until(lambda: fresh.get("/apis/example.com/v1/things").status == 200)
    assert time.monotonic() - begin >= 0.3


def test_garbage_stays_while_its_collector_is_paused() -> None:
    with Sandbox(workloads=False) as sandbox:
        client = Client(sandbox)
        owner = client.create(MAPS, "owner")["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        client.create(MAPS, "child", ownerReferences=[reference])
        sandbox.pause("garbage")
        assert "garbage" in client.get("/sandbox/controllers").json["paused"]
        client.ask("DELETE", f"{MAPS}/owner")
        time.sleep(0.2)
        assert client.get(f"{MAPS}/child").status == 200
        assert client.ask("POST", "/sandbox/controllers", {"resume": ["garbage"]}).status == 200
        until(lambda: client.get(f"{MAPS}/child").status == 404)
        assert client.ask("POST", "/sandbox/controllers", {"pause": ["unknown"]}).status == 400
