"""The pytest fixture ``sandbox``: name ``gitsync.sandbox.pytest_plugin`` in ``pytest_plugins`` to have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitsync.sandbox.server import Sandbox


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Give the test a cluster of its own, gone when the test ends."""
    with Sandbox() as running:
        yield running
