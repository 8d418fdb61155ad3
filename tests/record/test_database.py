"""Databases that cannot be opened are reported with what to do."""

from __future__ import annotations

import sys

import pytest

from gitsync.errors import InvalidInput
from gitsync.record.database import Database


def test_an_absent_driver_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(InvalidInput, match="needs the package psycopg") as caught:
        Database("postgresql://gitsync@db/gitsync")

    assert "gitsync[postgresql]" in caught.value.hint
