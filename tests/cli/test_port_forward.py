"""Without a URL and a local dashboard, that of the cluster is reached by ``kubectl port-forward``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Commands, Gitsync


def kubectl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a kubectl in front of PATH that writes its arguments to a file, then runs a script."""
    seen, program = folder / "seen", folder / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{seen}\n{script}\n')
    program.chmod(0o755)
    (folder / "config").write_text("")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
    return seen


def test_a_list_comes_from_the_dashboard_in_the_cluster(
    asked: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = asked.url.rpartition(":")[2]
    seen = kubectl(tmp_path, f'echo "Forwarding from 127.0.0.1:{port} -> 8080"; exec sleep 60', monkeypatch)
    done = asked.shop("objects", "-o", "name")
    assert (done.code, "Deployment/web\n" in done.out) == (0, True)
    assert seen.read_text() == "--namespace gitsync port-forward --address 127.0.0.1 service/gitsync :80\n"
    monkeypatch.setenv("GITSYNC_KUBECONFIG", str(tmp_path / "config"))
    assert asked.shop("objects", "-o", "name").code == 0
    assert seen.read_text().splitlines()[1].startswith(f"--kubeconfig={tmp_path}/config --namespace gitsync")


def test_a_dashboard_that_is_named_or_local_needs_no_kubectl(
    asked: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = kubectl(tmp_path, "exit 1", monkeypatch)
    assert asked("objects").code == 0
    assert not seen.exists()


@pytest.mark.parametrize("script", ['echo "error: services gitsync not found" >&2; exit 1', "exit 1"])
def test_why_it_is_not_reached_is_reported(
    gitsync: Gitsync, tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl(tmp_path, script, monkeypatch)
    done = gitsync("changes", "--data", tmp_path)
    assert done.code == 3
    assert "name one with --server URL" in done.err
    assert ("services gitsync not found" in done.err) == ("services" in script)


def test_without_a_kubeconfig_nothing_is_forwarded(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = kubectl(tmp_path, "exit 1", monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert gitsync("changes", "--data", tmp_path).code == 2
    assert not seen.exists()
