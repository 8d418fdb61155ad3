"""The health rules of well-known kinds, judged by the conformance cases."""

from __future__ import annotations

from tests.conformance_data import suite
from tests.health.health_cases import run


def test_every_status_is_as_recorded():
    results = run(suite("health"))
    assert results
    assert [(name, problem) for name, problem in results if problem] == []
