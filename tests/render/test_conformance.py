"""Every recorded Kustomize case builds to what kubectl printed."""

from __future__ import annotations

import pytest

from tests.conformance_data import suite
from tests.render import kustomize_cases

CASES = list(kustomize_cases.cases(suite("kustomize")))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_builds_what_kubectl_printed(case):
    result = kustomize_cases.run_case(case)

    assert result.documents, result.why
    assert result.identical, result.why
