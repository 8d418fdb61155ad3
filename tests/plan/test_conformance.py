"""Drift, judged by the recorded cases."""

from __future__ import annotations

from tests.conformance_data import suite
from tests.plan.diff_cases import run, run_paths


def test_every_verdict_is_as_recorded():
    results = run(suite("diff"))
    assert results
    assert [(name, problem) for name, problem in results if problem] == []


def test_every_changed_path_is_as_recorded():
    results = run_paths(suite("diff"))
    assert results
    assert [(name, problem) for name, problem in results if problem] == []
