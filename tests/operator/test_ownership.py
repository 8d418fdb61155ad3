"""Which spec of a member of a MultiAgentSystem the operator carries out, on fakes."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.keys import owner_reference
from gitsync.agents.model.system import spec_digest
from gitsync.objects.manifest import Manifest
from gitsync.operator.ownership import Ownership
from gitsync.state.declarations import Declarations
from tests.agents.factories import agent, changed, member, system
from tests.fakes.ports import FakeCluster, FakeLive

TRIAGE = agent("desk-triage")
EVIL = changed(TRIAGE, "spec.model.endpoint", "http://evil/v1")


def refusal(live: Manifest, permitted: str, *, controller: bool = True, uid: str = "") -> str:
    """Return why an Agent is refused whose system permits some digests."""
    cluster = FakeCluster()
    row = {"agent": "desk-triage", "permitted": permitted}
    owner = cluster.put({**system(member("triage")), "status": {"members": [{"agent": "desk-other"}, row]}})
    reference = owner_reference("desk", uid or owner["metadata"]["uid"], "MultiAgentSystem")
    owned = {**live["metadata"], "ownerReferences": [{**reference, "controller": controller}]}
    of_fakes: Any = cluster
    ownership = Ownership(of_fakes, FakeLive(cluster), Declarations())
    return ownership.refusal(cluster.put({**live, "metadata": owned}))


@pytest.mark.parametrize("others", ["", "0" * 40 + " "])
def test_what_the_system_applied_is_carried_out(others: str) -> None:
    assert refusal(TRIAGE, others + spec_digest(TRIAGE)) == ""


def test_another_spec_is_refused_with_the_system_that_restores_it() -> None:
    reason = refusal(EVIL, spec_digest(TRIAGE))
    assert reason.startswith("its spec is not what MultiAgentSystem shop/desk applied")


def test_replicas_are_those_of_an_autoscaler() -> None:
    assert refusal(changed(TRIAGE, "spec.replicas", 7), spec_digest(TRIAGE)) == ""


def test_without_a_digest_nothing_is_refused() -> None:
    assert refusal(EVIL, "") == ""


@pytest.mark.parametrize("reference", [{"controller": False}, {"uid": "of-an-older-system"}])
def test_an_agent_that_no_system_controls_has_its_own_gate(reference: dict[str, Any]) -> None:
    assert refusal(EVIL, spec_digest(TRIAGE), **reference) == ""
