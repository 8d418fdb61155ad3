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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"hooks": {}}, "a case has the unknown member hooks"),
        ({"variants": [{"files": {}, "env": {}}]}, "a variant has the unknown member env"),
        ({"steps": [{"tag": "v1"}]}, "a step has the unknown member tag"),
        ({"request": {"method": "POST", "query": "x"}}, "a request has the unknown member query"),
        ({"files": {"a": {"random": 9}}}, "the content of a has an unknown form: ['random']"),
        ({"app": {"project": "b"}}, "an application has the unknown member project"),
        ({"outcome": "explode"}, "the outcome explode is unknown"),
        ({"values": ["x"], "setup": "in the tag"}, "the setup names no field for the values: in the tag"),
        ({}, "the case has nothing to execute"),
    ],
)
def test_a_case_that_the_runner_cannot_execute_fails(change: dict[str, Any], problem: str) -> None:
    case = {"name": "n", "area": "git", "setup": "", "expect": "", "outcome": "reject", "error_mentions": []} | change
    assert problem in run_case(case, {}).problems
