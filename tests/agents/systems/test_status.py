"""The status of a system, from the Agents of its members."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.model.system import parse_system
from gitsync.agents.systems.status import MemberState, SystemSituation, system_status
from gitsync.objects.manifest import Manifest
from tests.agents.factories import member, system

NOW = "2026-01-01T00:00:00Z"
FAILED = {"type": "Stalled", "status": "True", "reason": "RolledBack", "message": "a-2 failed: no answer"}


def serving(*conditions: dict[str, Any]) -> Manifest:
    """Return an Agent whose Pods are ready, with further conditions."""
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "conditions": [ready, *conditions]}}


@pytest.mark.parametrize(
    ("conditions", "is_optional", "ready", "phase"),
    [
        ((), False, "True", "Running"),
        # It serves its last good revision, which is not what the system declares.
        ((FAILED,), False, "False", "Failed"),
        ((FAILED,), True, "True", "Running"),
    ],
)
def test_a_member_that_failed_and_still_serves_is_not_ready(
    conditions: tuple[dict[str, Any], ...], is_optional: bool, ready: str, phase: str
) -> None:
    state = MemberState("a", "desk-a", is_optional, serving(*conditions))
    situation = SystemSituation(parse_system(system(member("a"))), (("a",),), {"a": state}, wave=1, since=NOW)
    status = system_status(situation, {}, NOW)
    (condition,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert (condition["status"], status["phase"]) == (ready, phase)
