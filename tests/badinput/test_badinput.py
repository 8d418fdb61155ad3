"""Every bad input is refused with words that help, harms nothing, and leaves its neighbour syncing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.badinput.badinput_cases import run_case
from tests.conformance_data import conformance_dir

_FILE = conformance_dir() / "badinput" / "cases.json"
_SUITE: dict[str, Any] = orjson.loads(_FILE.read_bytes()) if _FILE.is_file() else {"defaults": {}, "cases": []}
_MANY = 7
"""A case of more variants than this takes a while."""


def _param(case: dict[str, Any]) -> Any:
    variants = len(case.get("variants") or case.get("values") or ())
    return pytest.param(case, id=case["name"], marks=[pytest.mark.slow] if variants > _MANY else [])


@pytest.mark.timeout(300)  # one case commits 100,001 files
@pytest.mark.skipif(not _FILE.is_file(), reason="no conformance suite 'badinput': set GITSYNC_CONFORMANCE")
@pytest.mark.parametrize("case", [_param(case) for case in _SUITE["cases"]])
def test_bad_input_is_refused_and_harms_nothing(case: dict[str, Any]) -> None:
    assert run_case(case, _SUITE["defaults"]).problems == ()
