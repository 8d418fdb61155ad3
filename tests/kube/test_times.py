"""When objects with a TTL end."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.kube.times import Finish, finish_of, is_temporary

TIME = "2026-03-01T12:00:00Z"
SECONDS = 1772366400.0


def ended(type: str, status: str = "True", ttl: Any = 60) -> dict[str, Any]:
    condition = {"type": type, "status": status, "lastTransitionTime": TIME}
    return {"kind": "Job", "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize("type", ["Complete", "Completed", "Succeeded"])
def test_success(type: str) -> None:
    assert finish_of(ended(type)) == Finish(True, SECONDS + 60)


def test_failure() -> None:
    assert finish_of(ended("Failed", ttl=0)) == Finish(False, SECONDS)


@pytest.mark.parametrize(
    "manifest",
    [
        ended("Complete", "False"),
        ended("Suspended"),
        ended("SuccessCriteriaMet"),
        ended("FailureTarget"),
        {**ended("Complete"), "status": {}},
        {**ended("Complete"), "status": {"conditions": None}},
    ],
)
def test_one_that_has_not_ended(manifest: dict[str, Any]) -> None:
    assert is_temporary(manifest)
    assert finish_of(manifest) is None


@pytest.mark.parametrize("ttl", [None, "60", {}])
def test_one_that_no_ttl_deletes(ttl: Any) -> None:
    assert not is_temporary(ended("Complete", ttl=ttl))
    assert finish_of(ended("Complete", ttl=ttl)) is None


@pytest.mark.parametrize("spec", [None, [], "text"])
def test_a_spec_of_another_type(spec: Any) -> None:
    assert not is_temporary({"spec": spec})
