"""A world with a running operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A sandbox and a controller that is not started; the namespace ``shop`` exists."""
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()
