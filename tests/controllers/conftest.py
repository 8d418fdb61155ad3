"""The controllers are tested in the same small world as the whole way."""

from tests.flow.conftest import world

__all__ = ["world"]
