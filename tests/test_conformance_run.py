"""``make conformance`` reports expected differences with their reasons, and fails when one of them agrees."""

from __future__ import annotations

import pytest

from tests import conformance_expectations
from tests.run_conformance import lines


@pytest.fixture(autouse=True)
def expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance_expectations, "EXPECTED", {"diff": {"odd": "on purpose"}})


def test_an_expected_difference_is_listed_and_no_failure() -> None:
    found = list(lines("diff", [("even", True), ("odd", False)]))
    assert found == ["diff: 1 passed, 0 failed, 1 differ as expected", "- odd: on purpose"]


def test_an_expected_difference_that_agrees_or_is_gone_fails() -> None:
    for outcomes, why in (([("odd", True)], "agrees now"), ([], "is not in the suite")):
        assert list(lines("diff", outcomes))[1].startswith(f"  odd: {why}")


def test_an_unexpected_difference_fails() -> None:
    assert "  even" in list(lines("diff", [("even", False), ("odd", False)]))
