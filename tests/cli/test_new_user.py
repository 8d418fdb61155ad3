"""Mistakes and surroundings of a new user: relative paths, taken ports, missing programs, a second start."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from gitsync.cli.dashboard import listen
from gitsync.errors import InvalidInput
from gitsync.sandbox.server import Sandbox
from gitsync.settings import Settings
from tests.cli.conftest import Gitsync, dashboard_url, line, process, running
from tests.flow.environment import Repository
from tests.flow.factories import config_map
from tests.waiting import until


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """The file of an Application of a repository on this machine."""
    repo = Repository(tmp_path / "git")
    repo.commit("open", {"shop/a.yaml": config_map("a", a="1")})
    file = tmp_path / "app.yaml"
    file.write_text(
        "apiVersion: gitsync.dev/v1alpha1\nkind: Application\nmetadata: {name: shop, namespace: gitsync}\n"
        f"spec: {{source: {{repoURL: '{repo.url}', path: shop}}, destination: {{namespace: default}}}}\n"
    )
    return file


def test_a_relative_data_folder_renders(gitsync: Gitsync, tmp_path: Path, application: Path) -> None:
    with Sandbox() as server:
        config = server.kubeconfig(tmp_path / "config")
        settings = {"KUBECONFIG": "config", "GITSYNC_ALLOW_FILE_URLS": "true", "GITSYNC_WEB_PORT": 0}
        with running("run", "--controller-rights", "--application", application.name, cwd=tmp_path, **settings) as (
            _,
            log,
        ):
            line(log, "dashboard ready at ")
            until(lambda: gitsync("status", "--kubeconfig", config).code == 0, 20, log.read_text)
    assert (tmp_path / ".gitsync" / "mirrors").is_dir()


def test_every_path_setting_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names = [name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)]
    assert {"data", "policies", "prometheus_token_file", "users"} <= set(names)
    for name in (*names, "kubeconfig"):
        monkeypatch.setenv(f"GITSYNC_{name.upper()}", "there")

    settings = Settings()

    assert [str(getattr(settings, name)) for name in (*names, "kubeconfig")] == [str(tmp_path / "there")] * (
        len(names) + 1
    )
    monkeypatch.delenv("GITSYNC_DATA")
    assert Settings().data == tmp_path / ".gitsync"


def test_a_second_demo_names_the_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
        with running("run", "--kubeconfig", config, "--port", "0", "--data", data) as (_, log):
            url = dashboard_url(log)
            second = process("demo", "--port", "0", "--data", data)
    assert (second.code, f"already runs at {url}" in second.err) == (2, True)


def test_a_second_controller_on_the_data_folder_names_the_first(tmp_path: Path, application: Path) -> None:
    data = tmp_path / "data"
    with Sandbox() as server:
        config = server.kubeconfig(tmp_path / "config")
        arguments = ("run", "--kubeconfig", config, "--port", "0", "--data", data)
        with running(*arguments) as (child, log):
            url = dashboard_url(log)

            second = process(*arguments)

            assert second.code == 2
            assert f"{data} is in use by process {child.pid} (gitsync run --kubeconfig" in second.err
            assert (data / "dashboard.url").read_text() == f"{url}\n"
        with running(*arguments) as (_, log):  # the lock ends with its process
            line(log, "dashboard ready at ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_dashboard_and_then_the_controller(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    with Sandbox(workloads=False) as server:
        config = server.kubeconfig(tmp_path / "config")
        with running("run", "--kubeconfig", config, "--port", "0", "--data", data) as (child, log):
            line(log, "dashboard ready at ")
            child.send_signal(number)
            assert child.wait(60) == 0
            assert log.read_text().splitlines()[-1] == "stopping"
    assert not (data / "dashboard.url").exists()


def test_the_next_free_port_is_used_where_none_is_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listen("127.0.0.1", port, alternatives=20) as listener:
            assert port < listener.getsockname()[1] <= port + 20
        with pytest.raises(InvalidInput, match="GITSYNC_WEB_PORT"):
            listen("127.0.0.1", port)


def test_the_demo_reports_a_taken_port_of_the_environment(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GITSYNC_WEB_PORT", str(port))
            done = process("demo", "--data", tmp_path / "data")

    assert done.code == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.err


def test_the_demo_keeps_the_kubeconfig_of_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text("kind: Config\ncurrent-context: production\n")
    monkeypatch.setenv("GITSYNC_KUBECONFIG", str(config))

    done = process("demo", "--port", "0", "--data", tmp_path / "data")

    assert (done.code, "is the kubeconfig of another cluster" in done.err) == (2, True)
    assert "production" in config.read_text()


def test_the_kubeconfig_of_the_environment_is_used(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITSYNC_KUBECONFIG", str(tmp_path / "gone"))

    assert f"file {tmp_path / 'gone'} does not exist" in gitsync("status").err


@pytest.mark.parametrize("arguments", [("demo", "--port", "0"), ("diff", "shop"), ("run", "--port", "0")])
def test_a_missing_git_is_reported(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Sandbox() as server:
        config = server.kubeconfig(tmp_path / "config")
        environment = {"PATH": str(tmp_path), "KUBECONFIG": str(config)}
        done = process(*arguments, "--data", tmp_path / "data", env=environment)

    assert done.code == 2
    assert "git is not installed, or not on PATH; install Git" in done.err
