"""What tests of several packages start once."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.git_processes import GitProcesses

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

# jsonschema imports it where another tool has installed it, and compiles 38 grammars for formats that we never check.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_collection() -> None:
    """Collect no garbage while modules are imported: nearly all objects stay, and each time more were examined."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt the modules of all tests from garbage collection, which would examine millions of objects each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exempt them again after a controller that ran for long has collected the garbage of the whole process."""
    if nextitem is not None and nextitem.path != item.path and not gc.get_freeze_count():
        pytest_collection_finish()


@pytest.fixture
def git_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitProcesses:
    """Count the git processes that this process and its children start from now on."""
    made = GitProcesses(tmp_path / "git-processes")
    monkeypatch.setenv("PATH", str(made.folder), prepend=os.pathsep)
    return made


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Start a PostgreSQL of our own on a socket in a temporary folder."""
    bin = postgres.programs()
    if bin is None:
        pytest.skip("no PostgreSQL server programs on this machine")
    with postgres.running(bin) as server:
        yield server.url


@pytest.fixture(scope="session", autouse=True)
def _database_of_replicas(request: pytest.FixtureRequest) -> None:
    """Start the database that two replicas share, where the suite runs with them."""
    if os.environ.get("GITSYNC_TEST_REPLICAS") == "2":
        os.environ["GITSYNC_TEST_POSTGRES"] = request.getfixturevalue("postgres_url")
