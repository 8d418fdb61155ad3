"""Where an Agent is in a wave, and when it is its turn."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.keys import STOPPED
from gitsync.agents.waves import WaveChange, WaveLimit, WavePart, part_in_wave, wave_turn
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from tests.agents.factories import agent

REFERENCES = WaveChange.REFERENCES


def served(name: str = "helper", *, generation: int = 1, annotations: Any = None, **status: Any) -> Manifest:
    """Return an Agent that serves its revision, with these members of its status."""
    conditions = {"Ready": "True", "Reconciling": "False", "Stalled": "False", **status.pop("conditions", {})}
    manifest = agent(name)
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "generation": generation, "annotations": annotations or {}},
        "status": {
            "observedGeneration": 1,
            "updateRevision": f"{name}-1",
            "conditions": [{"type": type, "status": value} for type, value in conditions.items()],
            **status,
        },
    }


@pytest.mark.parametrize(("text", "total", "agents"), [("3", 200, 3), ("10%", 200, 20), ("10%", 5, 1), ("100%", 7, 7)])
def test_a_limit_is_a_number_or_a_percentage(text: str, total: int, agents: int) -> None:
    assert (WaveLimit.parse(text).agents(total), str(WaveLimit.parse(text))) == (agents, text)


@pytest.mark.parametrize("text", ["", "0", "0%", "%", "-1", "1.5", "ten", "٣"])
def test_another_text_is_not_a_limit(text: str) -> None:
    with pytest.raises(InvalidInput, match="neither a number of Agents"):
        WaveLimit.parse(text)


@pytest.mark.parametrize(
    ("manifest", "is_outdated", "part"),
    [
        pytest.param(served(), True, WavePart.WAITING, id="serves without the change"),
        pytest.param(served(), False, WavePart.NONE, id="serves with it"),
        pytest.param(served(wave={"references": "t"}), False, WavePart.NONE, id="has settled with it"),
        pytest.param(served(generation=2), True, WavePart.NONE, id="has a spec to roll out"),
        pytest.param(served(conditions={"Ready": "False"}), True, WavePart.NONE, id="does not serve"),
        pytest.param(
            served(conditions={"Reconciling": "True"}, wave={"references": "t"}), False, WavePart.UPDATING, id="updates"
        ),
        pytest.param(
            served(conditions={"Reconciling": "True"}, wave={"expansion": "t"}), False, WavePart.NONE, id="other wave"
        ),
        pytest.param(
            served(conditions={"Stalled": "True"}, wave={"references": "t"}), False, WavePart.FAILED, id="failed"
        ),
        pytest.param(
            served(conditions={"Stalled": "True"}, wave={"references": "t"}), True, WavePart.UPDATING, id="repaired"
        ),
        pytest.param(
            served(failedRevision="helper-1", wave={"references": "t"}), False, WavePart.UPDATING, id="just failed"
        ),
        pytest.param(served(annotations={STOPPED: "ada: leaks"}), True, WavePart.NONE, id="stopped"),
        pytest.param({**served(), "spec": {"suspend": True}}, True, WavePart.NONE, id="suspended"),
    ],
)
def test_an_agent_has_a_part_in_a_wave(manifest: Manifest, is_outdated: bool, part: WavePart) -> None:
    assert part_in_wave(manifest, REFERENCES, is_outdated=is_outdated) is part


def turns(parts: dict[str, WavePart], limit: str) -> list[str]:
    """Return the Agents of some parts whose turn it is."""
    members = [(served(name), part) for name, part in parts.items()]
    waiting = [name for name, part in parts.items() if part is WavePart.WAITING]
    return [name for name in waiting if wave_turn(served(name), members, WaveLimit.parse(limit)).is_admitted]


def test_the_first_by_name_are_admitted_up_to_the_limit() -> None:
    assert turns(dict.fromkeys("dbca", WavePart.WAITING), "2") == ["b", "a"]


def test_those_that_update_count() -> None:
    parts = {"a": WavePart.UPDATING, "b": WavePart.WAITING, "c": WavePart.WAITING, "d": WavePart.NONE}
    assert turns(parts, "1") == []
    assert turns(parts, "2") == ["b"]


def test_a_wave_stops_at_the_first_that_fails() -> None:
    parts = [(served("a"), WavePart.FAILED), (served("b"), WavePart.WAITING)]
    turn = wave_turn(served("b"), parts, WaveLimit.parse("100%"))
    assert (turn.is_admitted, turn.reason) == (False, "WaveStopped")
    assert "Agent shop/a" in turn.message


def test_those_far_behind_decide_less_often() -> None:
    parts = [(served(f"a{index:02}"), WavePart.WAITING) for index in range(20)]
    delays = [wave_turn(served(f"a{index:02}"), parts, WaveLimit.parse("2")).requeue_after for index in (1, 2, 19)]
    assert delays == [None, 4.0, 20.0]
