"""Each contract test runs on the sandbox and, where one is named, on a real control plane."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.sandbox.server import Sandbox
from tests.allowed_cluster import REFUSAL, is_allowed
from tests.contract.installed import give_installed_rights
from tests.contract.stage import Stage

KUBECONFIG = "GITSYNC_TEST_KUBECONFIG"
RIGHTS = "GITSYNC_TEST_RIGHTS"
"""With the value ``installed``, each controller of the suite has the rights of the shipped manifests, and no others."""


@pytest.fixture(params=["sandbox", "cluster"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage on the sandbox or on the cluster that the environment names; everything is removed afterwards."""
    if request.param == "sandbox":
        runs = request.node.get_closest_marker("images")
        with Sandbox(images=runs.args[0] if runs is not None else None) as sandbox:
            made = Stage(tmp_path, sandbox.kubeconfig(tmp_path / "kubeconfig"), is_real=False)
            _limit(made, request)
            yield made
            made.close()
        return
    if not os.environ.get(KUBECONFIG):
        pytest.skip(f"{KUBECONFIG} names no cluster")
    kubeconfig = Path(os.environ[KUBECONFIG])
    _require_label(kubeconfig)
    with (Path(tempfile.gettempdir()) / "gitsync-contract.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # cluster-scoped objects of two tests must not meet
        made = Stage(tmp_path, kubeconfig, is_real=True)
        try:
            _limit(made, request)
            yield made
        finally:
            made.close()


def _limit(made: Stage, request: pytest.FixtureRequest) -> None:
    is_limited = os.environ.get(RIGHTS) == "installed" and request.node.get_closest_marker("own_rights") is None
    if is_limited:
        give_installed_rights(made)


def _require_label(kubeconfig: Path) -> None:
    """Reject a cluster without the label for tests: they create and delete cluster-scoped objects."""
    client = Client(Connection(str(kubeconfig)))
    try:
        if not is_allowed(client):
            pytest.fail(REFUSAL)
    finally:
        client.close()
