"""What the log says at the start, by which version requests are made, and how the level changes while it runs."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import yaml

from gitsync import __version__
from gitsync.cli.serve import changed_settings
from gitsync.cluster.client import Client, Connection
from gitsync.errors import GitsyncError
from gitsync.sandbox.server import Sandbox
from gitsync.settings import Settings
from gitsync.source.remote import probe
from tests.cli.conftest import line, running
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.http_service import serve_http
from tests.waiting import until


def lines(log: Path, event: str) -> list[dict[str, str]]:
    """Return the lines of the log about an event, which are JSON objects."""
    read = [json.loads(text) for text in log.read_text().splitlines() if text.startswith("{")]
    return [entry for entry in read if entry["event"] == event]


def test_the_first_line_has_version_and_changed_settings_and_what_is_rejected_follows(tmp_path: Path) -> None:
    with Sandbox() as sandbox:
        world = World(tmp_path, sandbox)
        world.application("unbound")
        settings = {
            "GITSYNC_WEB_TOKEN": "secret-token-of-the-dashboard",
            "GITSYNC_AUDIT_DAYS": "90",
            "GITSYNC_LOG_LEVEL": "info",
        }
        with running(
            "run", "--kubeconfig", world.kubeconfig, "--port", "0", "--data", tmp_path / "data", **settings
        ) as (_, log):
            line(log, "dashboard ready at ")
            (first,) = lines(log, "gitsync starts")
            said = log.read_text()
        world.close()
    assert (first["version"], first["audit_days"], first["web_token"]) == (__version__, "90", "set")
    assert "lease_seconds" not in first, "as by default"
    assert "secret-token-of" not in said
    # with the fix: an Application that names no account is not synced by this version
    assert re.search(r"gitsync/unbound.*serviceAccountName|serviceAccountName.*gitsync/unbound", said), said


def test_of_secrets_and_urls_the_line_has_that_they_are_set() -> None:
    database = "postgresql://gitsync:secret@db/gitsync"
    assert changed_settings(Settings(database=database))["database"] == "set"


def test_a_signal_lets_the_log_of_a_running_controller_have_each_request(tmp_path: Path) -> None:
    with Sandbox() as sandbox:
        world = World(tmp_path, sandbox)
        world.namespace("shop")
        world.application()
        with running(
            "run",
            "--kubeconfig",
            world.kubeconfig,
            "--port",
            "0",
            "--data",
            tmp_path / "data",
            "--controller-rights",
            GITSYNC_LOG_LEVEL="info",
            GITSYNC_ALLOW_FILE_URLS="true",
        ) as (child, log):
            line(log, "dashboard ready at ")
            assert not lines(log, "api request")
            child.send_signal(signal.SIGUSR1)
            until(lambda: [entry["to"] for entry in lines(log, "the level of the log changed")] == ["debug"])
            world.synced(world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")}))
            until(lambda: lines(log, "api request"))
            child.send_signal(signal.SIGUSR1)
            until(lambda: [entry["to"] for entry in lines(log, "the level of the log changed")] == ["debug", "info"])
            before = len(lines(log, "api request"))
            world.synced(world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")}))
            assert len(lines(log, "api request")) == before
        world.close()


@contextmanager
def agents() -> Iterator[tuple[int, Counter[str]]]:
    """Yield the port of a server that refuses everything, and what it was asked by."""
    seen_agents: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen_agents[str(self.headers["User-Agent"])] += 1
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serve_http(Handler) as port:
        yield port, seen_agents


def test_requests_to_git_servers_name_the_version(tmp_path: Path) -> None:
    with agents() as (port, names):
        probe(f"http://127.0.0.1:{port}/shop.git", "", "")
    assert names.keys() == {f"git/2 (gitsync/{__version__})"}


def test_requests_to_the_api_server_name_the_version(tmp_path: Path) -> None:
    with agents() as (port, names):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        client = Client(Connection(str(file)))
        with suppress(GitsyncError):  # it does not serve that
            client.get("/version")
        client.close()
    assert names.keys() == {f"gitsync/{__version__}"}
