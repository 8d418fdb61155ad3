"""The members of a MultiAgentSystem: their specs, their waves, and who talks to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.agents.model.agent import AgentSpec, parse_agent
from gitsync.agents.model.system import Member, System, parse_system
from gitsync.errors import InvalidInput
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest
from gitsync.objects.parsing import parse_spec

LONGEST_NAME = 40
"""Characters of an Agent's name, which its children extend."""


def agent_name(system: System, member: Member) -> str:
    """Return the name of a member's Agent."""
    return member.agent_ref.name if member.agent_ref else f"{system.name}-{member.name}"


def member_spec(system: System, member: Member) -> dict[str, Any]:
    """Return the spec of an inline member: the template over the defaults, maps merged, lists replaced."""
    spec = declared_spec(system, member)
    # After the merge: a template must not resume a member of a suspended system.
    return {**spec, "suspend": True} if system.spec.suspend else spec


def declared_spec(system: System, member: Member) -> dict[str, Any]:
    """Return the spec of an inline member, whether the system is suspended or not."""
    return _merged(system.spec.defaults, member.template.spec if member.template else {})


def check_members(system: System) -> None:
    """Raise InvalidInput that names the field for a member that is not a valid Agent, and for a dependency cycle."""
    for index, member in enumerate(system.spec.agents):
        if member.template is None:
            continue
        where = f"spec.agents[{index}].template.spec"
        # With the defaults merged in: a template alone may lack what the defaults have.
        parse_spec(AgentSpec, member_spec(system, member), where, object=str(system.ref))
        if len(agent_name(system, member)) > LONGEST_NAME:
            raise InvalidInput(
                f"the Agent would be named {agent_name(system, member)}, longer than {LONGEST_NAME} characters",
                location=f"spec.agents[{index}].name",
                object=str(system.ref),
                hint="shorten the name of the member or of the system",
            )
    # Called for its error: a cycle is reported before anything is written.
    waves(system)


def waves(system: System) -> tuple[tuple[str, ...], ...]:
    """
    Return the names of the members in the order of their dependencies, those first that depend on none.

    Raise InvalidInput that names the members of a cycle.
    """
    needs = {member.name: {dependency.agent for dependency in member.depends_on} for member in system.spec.agents}
    in_order: list[tuple[str, ...]] = []
    while needs:
        ready = tuple(name for name, others in needs.items() if not others & needs.keys())
        if not ready:
            raise InvalidInput(
                f"members depend on each other: {' -> '.join(_cycle(needs))}",
                location="spec.agents",
                object=str(system.ref),
                hint="remove one of the dependencies",
            )
        in_order.append(ready)
        needs = {name: others for name, others in needs.items() if name not in ready}
    return tuple(in_order)


def _cycle(needs: Mapping[str, set[str]]) -> list[str]:
    """Return the members of one cycle, the first one again at the end; every member depends on another of these."""
    path = [next(iter(needs))]
    while True:
        # min: the same cycle is named in each pass.
        step = min(needs[path[-1]] & needs.keys())
        if step in path:
            return [*path[path.index(step) :], step]
        path.append(step)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Manifest:
    """Return maps merged member by member; any other value of ``over`` replaces that of ``base``."""
    result = dict(base)
    for name, value in over.items():
        known = result.get(name)
        # Lists replace: merging them by position would mix two members.
        result[name] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def check_object(manifest: Manifest) -> None:
    """Raise InvalidInput, with the field as its location, for an Agent or MultiAgentSystem that is not valid."""
    if not str(manifest.get("apiVersion", "")).startswith(f"{AGENTS_GROUP}/"):
        return
    if manifest.get("kind") == "Agent":
        parse_agent(manifest)
    elif manifest.get("kind") == "MultiAgentSystem":
        check_members(parse_system(manifest))
