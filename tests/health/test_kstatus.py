"""The kstatus rules, judged by the conformance cases."""

from __future__ import annotations

from tests.conformance import suite
from tests.health.kstatus_cases import run


def test_conformance_cases_pass():
    results = run(suite("kstatus"))
    assert results
    assert [(name, problem) for name, problem in results if problem] == []
