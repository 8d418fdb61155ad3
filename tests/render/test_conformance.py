"""Every recorded Kustomize case builds to what kubectl printed."""

from __future__ import annotations

import pytest

from tests.conformance import suite
from tests.render import kustomize_cases

CASES = list(kustomize_cases.cases(suite("kustomize")))
DIFFERS = {
    "replacement/TestFilter/using a previous ID": "what Kustomize notes in annotations is not believed from the input"
}
"""Cases in which we differ on purpose, with the reason."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_builds_what_kubectl_printed(case):
    if case["name"] in DIFFERS:
        pytest.skip(DIFFERS[case["name"]])
    result = kustomize_cases.run_case(case)

    assert result.documents, result.why
    assert result.identical, result.why
