"""Members, their merged specs and their waves."""

from __future__ import annotations

import pytest

from gitsync.agents.model.system import parse_system
from gitsync.agents.systems.members import check_members, check_object, member_spec, waves
from gitsync.errors import InvalidInput
from tests.agents.factories import changed, example, member, system


def test_waves_follow_the_dependencies() -> None:
    assert waves(parse_system(example("multiagentsystem"))) == (("researcher", "billing"), ("triage",), ("front-door",))


def test_a_cycle_is_named() -> None:
    looped = system(member("a", "b"), member("b", "c"), member("c", "b"), member("d"))
    with pytest.raises(InvalidInput, match="b -> c -> b"):
        check_object(looped)


def test_a_template_is_merged_over_the_defaults() -> None:
    defaults = {"model": {"id": "large", "parameters": {"top_p": "1"}}, "network": {"policy": "Unmanaged"}}
    found = parse_system(system(member("a"), defaults=defaults))
    spec = member_spec(found, found.spec.agents[0])
    assert spec["model"] == {"provider": "OpenAI", "id": "small", "parameters": {"top_p": "1"}}
    assert spec["network"] == {"policy": "Unmanaged"}


def test_a_suspended_system_suspends_the_members_that_it_owns() -> None:
    found = parse_system(system(member("a"), suspend=True))
    assert member_spec(found, found.spec.agents[0])["suspend"] is True


def test_a_member_is_checked_as_an_agent() -> None:
    broken = changed(system(member("a")), "spec.agents.0.template.spec.runtime.port", 0)
    with pytest.raises(InvalidInput, match=r"agents\[0\]\.template\.spec\.runtime\.port"):
        check_members(parse_system(broken))


def test_a_long_name_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="longer than 40"):
        check_object(system(member("a" * 20), name="b" * 25))
