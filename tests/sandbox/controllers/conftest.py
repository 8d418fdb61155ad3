"""Fixtures of the controllers' tests."""

from __future__ import annotations

import pytest

from tests.sandbox.controllers.world import World


@pytest.fixture
def world() -> World:
    return World()
