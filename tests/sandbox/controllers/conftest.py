"""Fixtures of the controllers' tests."""

from __future__ import annotations

import pytest

from tests.sandbox.controllers.cluster import World


@pytest.fixture
def world() -> World:
    return World()
