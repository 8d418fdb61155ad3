"""Fixtures: commands in this process or as processes, and an application that is in sync."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gitsync.cli.main import app
from gitsync.sandbox.server import Sandbox
from tests import replicas
from tests.asgi_server import serve
from tests.child_process import child_process
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


Gitsync = Callable[..., Done]


@pytest.fixture
def gitsync(monkeypatch: pytest.MonkeyPatch) -> Gitsync:
    """Run a command in this process."""
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def run(*arguments: object) -> Done:
        own = replicas.variables(arguments)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="gitsync", env=own)
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


def process(*arguments: object, **options: Any) -> Done:
    """Run a command as a process of its own."""
    command = [sys.executable, "-m", "gitsync", *map(str, arguments)]
    options["env"] = {**(options.get("env") or os.environ), **replicas.variables(arguments)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, **options)
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass(slots=True)
class Shop:
    """An application ``shop`` of two commits that is in sync, and commands that act on it."""

    world: World
    run: Gitsync
    first: str
    second: str

    def __call__(self, *arguments: object) -> Done:
        """Run a command on the world's cluster and data."""
        return self.run(*arguments, "--data", self.world.folder / "data")


@contextmanager
def _shop_world(folder: Path) -> Iterator[tuple[World, str, str]]:
    """Yield a world whose application ``shop`` is in sync with the second of two commits, and both commits."""
    with Sandbox() as sandbox:
        world = World(folder, sandbox)
        world.namespace("shop")
        (folder / "data").mkdir()
        sandbox.kubeconfig(folder / "data" / "kubeconfig")  # where commands find it, as in the demo
        first = world.repo.commit(
            "the shop opens", {"shop/web.yaml": deployment("web"), "shop/prompt.yaml": config_map("prompt", text="a")}
        )
        world.application(risk={"approval": "Dangerous"})
        world.start()
        world.synced(first)
        second = world.repo.commit("a better prompt", {"shop/prompt.yaml": config_map("prompt", text="b")})
        world.synced(second)
        until(lambda: world.status()["health"] == "Healthy", 10, world.status)
        yield world, first, second
        world.close()


@pytest.fixture
def shop(tmp_path: Path, gitsync: Gitsync) -> Iterator[Shop]:
    with _shop_world(tmp_path) as (world, first, second):
        yield Shop(world, gitsync, first, second)


@pytest.fixture(scope="module")
def _unchanged_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str, str]]:
    with _shop_world(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture
def unchanged_shop(_unchanged_world: tuple[World, str, str], gitsync: Gitsync) -> Shop:
    """A shop for tests that change nothing of it, which share it within a module."""
    world, first, second = _unchanged_world
    return Shop(world, gitsync, first, second)


class Commands:
    """Commands that ask the dashboard of a shop."""

    def __init__(self, shop: Shop, url: str) -> None:
        self.shop = shop
        self.url = url

    def __call__(self, *arguments: object) -> Done:
        return self.shop(*arguments, "--server", self.url)


@pytest.fixture
def asked(shop: Shop) -> Iterator[Commands]:
    with serve(shop.world.dashboard()) as web:
        yield Commands(shop, web.url)


def as_account(world: World, name: str, file: Path) -> Path:
    """Write a kubeconfig for a ServiceAccount of the namespace ``shop``, and return its path."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = world.client.send("POST", f"/api/v1/namespaces/shop/serviceaccounts/{name}/token", request)
    file.write_text(re.sub(r"token: .*", f"token: {answer['status']['token']}", world.kubeconfig.read_text()))
    return file


@contextmanager
def running(
    *arguments: object, cwd: Path | None = None, **environment: object
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a command and yield it with the file that it prints to; interrupt it in the end."""
    files = [path for path in map(Path, map(str, arguments)) if path.is_absolute()]
    # never the working directory, which is the checkout
    log = (cwd or files[-1].parent) / f"log-{time.monotonic_ns()}"
    with log.open("w") as out:
        command = [sys.executable, "-m", "gitsync", *map(str, arguments)]
        options = {"stdout": out, "stderr": subprocess.STDOUT, "cwd": cwd, "text": True}
        settings = {**os.environ, **replicas.variables(arguments)} | {
            name: str(value) for name, value in environment.items()
        }
        with child_process(command, env=settings, **options) as child:
            try:
                yield child, log
            finally:
                child.send_signal(signal.SIGINT)
                assert child.wait(180) in (0, 130), log.read_text()


def line(log: Path, beginning: str) -> str:
    """Wait for a line with this beginning and return what follows it."""
    found = until(
        lambda: [text for text in log.read_text().splitlines() if text.startswith(beginning)], 180, log.read_text
    )
    return str(found[0]).removeprefix(beginning)


def dashboard_url(log: Path) -> str:
    """Wait for the dashboard and return its URL without the token that signs a browser in."""
    return line(log, "dashboard ready at ").partition("/?token=")[0]
