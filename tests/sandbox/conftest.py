"""Fixtures for tests of the sandbox: one shared by a module's tests, and a small client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitsync.sandbox.server import Sandbox
from tests.sandbox.http_client import Client


@pytest.fixture(scope="module")
def api() -> Iterator[Client]:
    """A client of an API server without controllers, shared by the tests of a module."""
    with Sandbox(controllers=False) as sandbox:
        yield Client(sandbox)


@pytest.fixture
def fresh() -> Iterator[Client]:
    """A client of an API server of the test's own, without controllers."""
    with Sandbox(controllers=False) as sandbox:
        yield Client(sandbox)
