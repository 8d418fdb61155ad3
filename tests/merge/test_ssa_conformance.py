"""The server-side apply cases of Kubernetes' structured merge, each as one test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance_data import conformance_dir
from tests.merge.ssa_cases import problem

CASES = sorted((conformance_dir() / "ssa").glob("*.json"))


@pytest.mark.skipif(not CASES, reason="no conformance suite 'ssa': set GITSYNC_CONFORMANCE")
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case(file: Path) -> None:
    assert problem(json.loads(file.read_text())) == ""
