"""Requests to agents that run, while revisions replace each other: none fails."""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitsync.sandbox.processes.addresses import has_loopback_network
from gitsync.sandbox.processes.images import Image
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import annotate, running, status_of
from tests.waiting import until

pytestmark = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")

PROGRAM = str(Path(__file__).parents[1] / "sandbox" / "processes" / "container_program.py")
IMAGES = {"example.com/server": Image((sys.executable, PROGRAM))}
CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 1}, {"weight": 100}]}}
BLUE_GREEN = {"type": "BlueGreen", "blueGreen": {"promotion": "Manual", "keepOldSeconds": 1}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose sandbox runs the test's server."""
    with Sandbox(images=IMAGES) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()


def version(number: str, **spec: Any) -> dict[str, Any]:
    probes = {"readiness": {"httpGet": {"path": "/"}, "periodSeconds": 1}}
    runtime = {"image": f"example.com/server:{number}", "args": [number], "probes": probes}
    return agent(replicas=2, runtime=runtime, lifecycle={"drain": {"timeoutSeconds": 1}}, **spec)


class Caller:
    """Ask the Service of the Agent again and again."""

    def __init__(self, url: str) -> None:
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": url}))
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

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            try:
                with self._opener.open("http://helper.shop:8080/", timeout=10) as answer:
                    answer.read()
                self.answered += 1
            except urllib.error.HTTPError as error:
                self.failed.append(f"{error.code}: {error.read().decode()}")
                error.close()
            except OSError as error:
                self.failed.append(str(error))


def test_no_request_fails_while_a_canary_takes_over(world: World) -> None:
    world.start()
    world.apply(version("1", update=CANARY))
    running(world, timeout=30)
    caller = Caller(world.sandbox.proxy_url)
    with caller.asking():
        world.apply(version("2", update=CANARY))
        running(world, generation=2, timeout=60)
        until(lambda: caller.answered > 50, 60)  # also the new revision answers, on a slow machine too
    assert caller.failed == []


def test_no_request_fails_while_blue_green_switches(world: World) -> None:
    world.start()
    world.apply(version("1", update=BLUE_GREEN))
    running(world, timeout=30)
    caller = Caller(world.sandbox.proxy_url)
    with caller.asking():
        world.apply(version("2", update=BLUE_GREEN))
        until(lambda: status_of(world)["updateRevision"] != status_of(world)["currentRevision"], 30)
        annotate(world, "helper", promote=status_of(world)["updateRevision"])
        running(world, generation=2, timeout=60)
        until(lambda: caller.answered > 50, 60)  # also the new revision answers, on a slow machine too
    assert caller.failed == []
