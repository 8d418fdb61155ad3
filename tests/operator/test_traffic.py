"""
Requests to agents that run, while revisions replace each other: none fails.

At least a hundred requests are made by default, ``GITSYNC_FAULTS=all`` makes ten thousand.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import Conflict
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.integrations.fake_prometheus import prometheus, vector
from tests.operator.agent_world import annotate, condition, config_map, running, status_of
from tests.operator.surroundings import define
from tests.waiting import until

pytestmark = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")

REQUESTS = 10_000 if os.environ.get("GITSYNC_FAULTS") == "all" else 100
GATEWAY = "gateway.networking.k8s.io"
PROGRAM = str(Path(__file__).parents[1] / "sandbox" / "processes" / "container_program.py")
IMAGES = {"example.com/server": Image((sys.executable, PROGRAM)), "gitsync": Image((sys.executable, "-m", "gitsync"))}
CANARY: dict[str, Any] = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 1}, {"weight": 100}]}}
ROUTED = {"type": "Canary", "canary": {**CANARY["canary"], "traffic": "GatewayAPI"}}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
BLUE_GREEN = {"type": "BlueGreen", "blueGreen": {"promotion": "Manual", "keepOldSeconds": 1}}

CHECK = "import os, sys, urllib.request as web; sys.exit(b'bad' in web.urlopen(os.environ['AGENT_URL']).read())"
CASE = '{"name": "good", "input": "hello", "assert": [{"notContains": "bad"}]}\n'
ANALYSIS = {"name": "errors", "prometheusQuery": "errors", "max": "0.05"}
STOPS: dict[str, dict[str, Any]] = {
    "validation": {"validate": [{"name": "answers", "exec": {"command": [sys.executable, "-c", CHECK]}}]},
    "evaluation": {"evaluation": {"cases": {"name": "cases", "key": "cases.jsonl"}}},
    "analysis": {"canary": {"steps": [{"weight": 50, "pauseSeconds": 600}], "analysis": [ANALYSIS]}},
    "readiness": {},
}
"""What stops the canary of a revision whose first argument is ``bad``, and the setting that it needs."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose sandbox runs the test's server."""
    with Sandbox(images=IMAGES) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        made.apply(config_map("cases", **{"cases.jsonl": CASE}))
        yield made
        made.close()


def version(name: str, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    path = "/ready" if name == "bad unready" else "/"
    probes = {"readiness": {"httpGet": {"path": path}, "periodSeconds": 1}}
    runtime = {"image": "example.com/server:1", "args": name.split(), "probes": probes}
    lifecycle = {"drain": {"timeoutSeconds": 1}, **spec.pop("lifecycle", {})}
    return agent(replicas=replicas, runtime=runtime, lifecycle=lifecycle, **spec)


def stopped_by(kind: str, name: str) -> dict[str, Any]:
    """Return a version whose canary has this check, analysis or probe, and a deadline of some seconds."""
    setting = STOPS[kind]
    update = {**CANARY, "progressDeadlineSeconds": 4 if name == "bad unready" else 600}
    update |= {key: value for key, value in setting.items() if key == "canary"}
    lifecycle = {key: value for key, value in setting.items() if key == "validate"}
    evaluation = {key: value for key, value in setting.items() if key == "evaluation"}
    return version(name, update=update, lifecycle=lifecycle, **evaluation)


class Caller:
    """Ask the Service of the Agent again and again."""

    def __init__(self, world: World) -> None:
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": world.sandbox.proxy_url}))
        self.answered = 0
        self.failed: list[str] = []
        self._ended = threading.Event()

    @contextmanager
    def asking(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def ask(self, path: str = "/") -> str:
        with self._opener.open(f"http://{self.service()}.shop:8080{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def service(self) -> str:
        """Return the Service that the next request is for."""
        return "helper"

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            try:
                self.ask()
                self.answered += 1
            except urllib.error.HTTPError as error:
                self.failed.append(f"{error.code}: {error.read().decode()}")
                error.close()
            except OSError as error:
                self.failed.append(str(error))


class MeshCaller(Caller):
    """Divide the requests by the weights of the HTTPRoute, with a delay, as the proxies of a service mesh do."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._world = world
        self._chance = random.Random(7)
        self._weights: dict[str, int] = {}
        self._requests = 0
        self.reached: set[str] = set()

    def service(self) -> str:
        if self._requests % 10 == 0:
            self._follow()
        self._requests += 1
        (name,) = self._chance.choices(list(self._weights), list(self._weights.values()))
        self.reached.add(name)
        return name

    def _follow(self) -> None:
        route = self._world.get("HTTPRoute", "helper", api=f"{GATEWAY}/v1") or {}
        self._weights = {backend["name"]: backend["weight"] for backend in route["spec"]["rules"][0]["backendRefs"]}
        accepted = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}
        accepted["observedGeneration"] = route["metadata"]["generation"]
        parent = {"parentRef": {"name": "helper"}, "controllerName": "example.com/mesh", "conditions": [accepted]}
        # Of a route that the operator has changed meanwhile the next request tells.
        with suppress(Conflict):
            path = f"/apis/{GATEWAY}/v1/namespaces/shop/httproutes/helper/status"
            self._world.client.send("PUT", path, {**route, "status": {"parents": [parent]}})


@pytest.mark.parametrize("update", [ROLLING, CANARY], ids=["rolling", "canary"])
def test_no_request_fails_while_a_revision_takes_over(world: World, update: dict[str, Any]) -> None:
    world.start()
    replace_under_requests(world, update, Caller(world))


def test_no_request_fails_while_a_route_divides_them(world: World) -> None:
    define(world, GATEWAY, "HTTPRoute")
    world.start()
    mesh = MeshCaller(world)
    replace_under_requests(world, ROUTED, mesh)
    assert mesh.reached == {"helper", "helper-canary"}


def replace_under_requests(world: World, update: dict[str, Any], caller: Caller) -> None:
    """Replace the revision of the Agent again and again while it is asked."""
    world.apply(version("1", update=update))
    running(world, timeout=30)
    generation = 1
    with caller.asking():
        while caller.answered < REQUESTS:
            generation += 1
            world.apply(version(str(generation), update=update))
            running(world, generation=generation, timeout=60)
    assert caller.failed == []


def test_no_request_fails_while_blue_green_switches(world: World) -> None:
    world.start()
    world.apply(version("1", update=BLUE_GREEN))
    running(world, timeout=30)
    caller, generation = Caller(world), 1
    with caller.asking():
        while caller.answered < REQUESTS:
            generation += 1
            world.apply(version(str(generation), update=BLUE_GREEN))
            until(lambda: "to promote" in condition(world, "Reconciling").get("message", ""), 30)
            annotate(world, "helper", promote=status_of(world)["updateRevision"])
            running(world, generation=generation, timeout=60)
    assert caller.failed == []


@pytest.mark.parametrize("kind", STOPS)
def test_no_request_fails_while_a_canary_returns(world: World, kind: str) -> None:
    with prometheus() as metrics:
        world.start(prometheus=metrics.url)
        world.apply(stopped_by(kind, "good"))
        good = running(world, timeout=60)["currentRevision"]
        caller, number = Caller(world), 0
        with caller.asking():
            while caller.answered < REQUESTS:
                number += 1
                metrics.default = vector(({}, "0"))
                world.apply(stopped_by(kind, "bad unready" if kind == "readiness" else f"bad {number}"))
                until(lambda: _is_begun(world) or _is_returned(world), 60, lambda: status_of(world))
                metrics.default = vector(({}, "1"))
                until(lambda: _is_returned(world), 60, lambda: status_of(world))
                world.apply(stopped_by(kind, "good"))
                running(world, generation=1 + 2 * number, timeout=60)
        assert caller.failed == []
    assert status_of(world)["currentRevision"] == good
    assert '"args": ["good"]' in caller.ask()


def _is_begun(world: World) -> bool:
    """Whether a new revision has Pods that are ready."""
    tracks = (world.get("Deployment", f"helper-{one}", api="apps/v1") or {} for one in ("canary", "preview"))
    return any((found.get("status") or {}).get("readyReplicas") for found in tracks)


def _is_returned(world: World) -> bool:
    """Whether the revision of the spec is given up, and its Pods are gone."""
    status = status_of(world)
    is_failed = status.get("failedRevision") == status.get("updateRevision") != status.get("currentRevision")
    gone = (world.get("Deployment", f"helper-{one}", api="apps/v1") is None for one in ("canary", "preview"))
    return bool(is_failed and condition(world, "Stalled").get("reason") == "RolledBack" and all(gone))


def test_a_request_in_flight_is_answered_before_its_pod_ends(world: World) -> None:
    drain = {"drain": {"http": {"method": "POST", "path": "/drain"}, "timeoutSeconds": 20}}
    world.start()
    world.apply(version("1", replicas=1, lifecycle=drain))
    running(world, timeout=30)
    caller, answers = Caller(world), list[str]()
    asking = threading.Thread(target=lambda: answers.append(caller.ask("/slow")))
    asking.start()  # it is answered once the drain of its Pod has begun
    (pod,) = world.client.get("/api/v1/namespaces/shop/pods")["items"]
    log = f"/api/v1/namespaces/shop/pods/{pod['metadata']['name']}/log"
    until(lambda: "receives /slow" in world.client.text(log))
    world.apply(version("2", replicas=1, lifecycle=drain))
    running(world, generation=2, timeout=30)
    asking.join()
    assert ['"args": ["1"]' in one for one in answers] == [True]
    assert '"args": ["2"]' in caller.ask()
