"""Demo, sandbox and run, as processes that are started, used and interrupted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import Gitsync, dashboard_url, line, process, running
from tests.flow.environment import Repository
from tests.flow.factories import config_map
from tests.waiting import until


def children(pid: int) -> set[int]:
    """Return the ids of all processes that a process has started, and theirs."""
    done = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(child): int(parent) for child, parent in (row.split() for row in done.stdout.splitlines())}
    found: set[int] = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.timeout(900)
def test_the_command_line_finds_the_dashboard_and_users_sign_in(gitsync: Gitsync, tmp_path: Path) -> None:
    data, users = tmp_path / "data", tmp_path / "users.yaml"
    token = tmp_path / "token"
    token.write_text(gitsync("users", "add", "ada", "--group", "platform", "--users", users).out.split()[-1])
    config = tmp_path / "config"
    settings = {"GITSYNC_USERS": users, "GITSYNC_WEB_PORT": 0, "GITSYNC_WEB_HOST": "localhost"}
    with running("demo", "--data", data, GITSYNC_KUBECONFIG=config, **settings) as (_, log):
        url = dashboard_url(log)
        assert not url.endswith(":8080")
        assert (data / "dashboard.url").read_text() == f"{url}\n"
        asked = ("approve", "support-dev", "--data", data)
        assert "sign in" in gitsync(*asked).err
        status = ("status", "--kubeconfig", config)
        until(lambda: gitsync(*status).code == 0, 400, lambda: gitsync(*status))
        assert "no plan waits for approval" in gitsync(*asked, "--token-file", token).err
        spoofed = Request(f"{url}/apps", headers={"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "ada"})
        with pytest.raises(HTTPError) as refused:
            urlopen(spoofed, timeout=60)
        assert refused.value.code == 401
        refused.value.close()
    assert not (data / "dashboard.url").exists()


@pytest.mark.timeout(900)
def test_the_demo_starts_stops_all_processes_and_continues(gitsync: Gitsync, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running("demo", "--port", "0", "--data", data) as (child, log):
        url = dashboard_url(log)
        with urlopen(url + "/healthz", timeout=60) as answer:
            assert answer.status == 200
        until(lambda: gitsync("status", "--data", data).code == 0, 400, lambda: gitsync("status", "--data", data))
        names = {app["name"] for app in gitsync("status", "--data", data, "-o", "json").json}
        assert names == {"support-agents", "support-dev", "support-staging", "support-prod"}
        started = children(child.pid)
        assert len(started) > 1
    until(lambda: not [pid for pid in started if is_alive(pid)])
    assert "stopping" in log.read_text()
    assert "Traceback" not in log.read_text()

    with running("demo", "--port", "0", "--data", data) as (child, log):
        line(log, "dashboard ready at ")
        until(lambda: gitsync("status", "--data", data).code == 0, 400, lambda: gitsync("status", "--data", data))
        assert len(gitsync("history", "support-dev", "--data", data, "-o", "json").json) == 1
        printed = log.read_text().partition("terminal:\n")[2].partition("Ctrl-C")[0]
        pasted = subprocess.run(["bash", "-e"], input=printed, cwd="/", capture_output=True, text=True, check=False)
        assert pasted.returncode == 0, pasted.stderr
        log_of = subprocess.run(
            ["git", "-C", data / "demo", "log", "--format=%s"], capture_output=True, text=True, check=True
        )
        assert log_of.stdout.splitlines()[:5] == [
            "Try a broken image",
            'Revert "Promise a refund"',
            "Promise a refund",
            "Apologize",
            "Release triage 2.2.0 to dev",
        ]
        answers = [line for line in pasted.stdout.splitlines() if line.startswith("Next: ")]
        assert answers[-1] == "Next: apologize first", "the prompt that failed leaves the answer as it was"
        assert "Failed 3/4" in pasted.stdout


def test_a_sandbox_can_be_used_by_its_kubeconfig_and_keeps_its_state(gitsync: Gitsync, tmp_path: Path) -> None:
    config, data = tmp_path / "config", tmp_path / "state"
    with running("sandbox", "--kubeconfig", config, "--data", data) as (_, log):
        line(log, "sandbox ready at ")
        assert "the cluster does not serve Applications" in gitsync("status", "--kubeconfig", config).err


def test_a_second_sandbox_or_demo_on_the_same_state_leaves_the_first_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with running("sandbox", "--kubeconfig", data / "kubeconfig", "--data", data / "sandbox") as (_, log):
        line(log, "sandbox ready at ")
        config = (data / "kubeconfig").read_text()

        again = process("sandbox", "--attached", "--kubeconfig", tmp_path / "c", "--data", data / "sandbox")
        demo = process("demo", "--port", "0", "--data", data)

        for done in (again, demo):
            assert done.code in (2, 3)
            assert "stop the sandbox that has it open" in done.err
            assert "Fatal" not in done.err
        assert (data / "kubeconfig").read_text() == config


def test_run_applies_the_applications_of_a_file(gitsync: Gitsync, tmp_path: Path) -> None:
    repo = Repository(tmp_path / "git")
    repo.commit("open", {"shop/a.yaml": config_map("a", a="1")})
    file, data = tmp_path / "app.yaml", tmp_path / "data"
    file.write_text(
        "apiVersion: gitsync.dev/v1alpha1\nkind: Application\nmetadata: {name: shop, namespace: gitsync}\n"
        f"spec: {{source: {{repoURL: '{repo.url}', path: shop}}, destination: {{namespace: default}}}}\n"
    )
    with Sandbox() as server:
        config = server.kubeconfig(tmp_path / "config")
        arguments = ("run", "--application", file, "--kubeconfig", config, "--port", "0", "--data", data)
        with running(*arguments, "--controller-rights", GITSYNC_ALLOW_FILE_URLS="true") as (_, log):
            line(log, "dashboard ready at ")
            until(lambda: gitsync("status", "--kubeconfig", config).code == 0, 20, log.read_text)
            assert "Synced" in gitsync("status", "shop", "--kubeconfig", config).out


def test_run_refuses_a_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(config_map("a"))

    done = process("run", "--application", file, "--data", tmp_path / "data")

    assert done.code == 2
    assert done.err.endswith("app.yaml: contains an object that is not an Application of gitsync.dev\n")


def test_a_taken_port_and_an_open_dashboard_are_refused(tmp_path: Path) -> None:
    import socket

    with Sandbox() as server, socket.create_server(("127.0.0.1", 0)) as taken:
        config = server.kubeconfig(tmp_path / "config")
        common = ("run", "--kubeconfig", config, "--data", tmp_path / "data")
        busy = process(*common, "--port", taken.getsockname()[1])
        opened = process(*common, "--port", 0, "--host", "0.0.0.0")

    assert (busy.code, "cannot listen on" in busy.err) == (2, True)
    assert (opened.code, "GITSYNC_WEB_TOKEN" in opened.err) == (2, True)
