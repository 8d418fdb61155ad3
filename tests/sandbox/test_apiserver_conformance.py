"""The recorded answers of a real API server, replayed against the sandbox."""

from __future__ import annotations

import pytest

from tests.conformance_data import conformance_dir
from tests.conformance_expectations import EXPECTED
from tests.sandbox.apiserver_cases import replay, scenarios

FOLDER = conformance_dir() / "apiserver"
SCENARIOS = scenarios(FOLDER) if FOLDER.is_dir() else []

KNOWN = EXPECTED["apiserver"]


@pytest.mark.skipif(not SCENARIOS, reason="no conformance suite 'apiserver': set GITSYNC_CONFORMANCE")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_recorded_scenario(scenario: dict[str, object], request: pytest.FixtureRequest) -> None:
    name = str(scenario["name"])
    if name in KNOWN:
        request.applymarker(pytest.mark.xfail(reason=KNOWN[name], strict=True))
    outcome = replay(scenario)
    assert outcome.passed, "\n".join(outcome.problems)
