"""Systems of applications, the policies of their namespaces, and their brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitsync.agents.expansion.network import Endpoint, denied_by
from gitsync.agents.keys import AGENT_LABEL, SERVING_LABEL
from gitsync.health.assess import assess
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView
from gitsync.server.formatting import visible
from gitsync.server.queries.agents import FoundAgent, Live, Owned

_SYSTEM = "MultiAgentSystem"


def find_system(views: Iterable[ApplicationView], live: Live, namespace: str, name: str) -> FoundAgent | None:
    """Return a system with the application that holds it, None where none does."""
    wanted = ObjectRef(AGENTS_GROUP, _SYSTEM, namespace, name)
    for view in views:
        held = any(item.ref == wanted for item in view.resources)
        if held and (manifest := live(view.key, wanted)) is not None:
            return FoundAgent(view.key, manifest)
    return None


def policies_of(
    views: Iterable[ApplicationView], namespace: str, agents: Iterable[Manifest], owned: Owned
) -> list[Manifest]:
    """Return the NetworkPolicies of a namespace: of the agents, and those that applications hold."""
    declared = (item.change.live for view in views for item in view.resources if item.ref.kind == "NetworkPolicy")
    owned_ones = (child for agent in agents for child in owned(uid_of(agent)))
    policies = {ref_of(manifest): manifest for manifest in (*declared, *owned_ones) if manifest is not None}
    return [
        manifest
        for ref, manifest in sorted(policies.items())
        if ref.kind == "NetworkPolicy" and ref.namespace == namespace
    ]


def brokers_of(system: Manifest) -> list[str]:
    """Return a line for each channel of a broker."""
    return [
        f"{channel.get('name')}: {', '.join(channel.get('from', ()))} to {', '.join(channel.get('to', ()))},"
        f" {at(channel, 'broker', 'type')} {at(channel, 'broker', 'url')}, topic {channel.get('topic')}"
        for channel in at(system, "spec", "channels") or ()
        if "broker" in channel
    ]


WIDTH: Final = 190
HEIGHT: Final = 44
_COLUMN = 300
_ROW = 74
_MARGIN = 24
"""Distance of lines that pass other nodes, which also keeps room for them on the left."""
_DEFAULT_PORT = 8080


class Pair(NamedTuple):
    """A sender and a receiver, by name of the members."""

    sender: str
    receiver: str


@dataclass(frozen=True, slots=True)
class MemberNode:
    """A member with its place, the health of its Agent and the reason."""

    name: str
    agent: str
    state: str
    message: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages from one member to another: the channels that declare them, and which policy denies them."""

    pair: Pair
    channels: tuple[str, ...]
    denied: str
    path: str
    """The line in the syntax of SVG."""

    @property
    def state(self) -> str:
        """How declaration and policies agree."""
        if not self.channels:
            return "undeclared"
        return "denied" if self.denied else "allowed"


@dataclass(frozen=True, slots=True)
class SystemGraph:
    """Nodes and flows with their places, and the size of the picture."""

    nodes: tuple[MemberNode, ...]
    flows: tuple[Flow, ...]
    width: int
    height: int


def system_graph(system: Manifest, agents: Mapping[str, Manifest], policies: Iterable[Manifest]) -> SystemGraph:
    """Return the graph of a system; ``agents`` are the live Agents by their names."""
    names = member_agents(system)
    places = _places(system, list(names))
    nodes = [_node(name, agent, agents.get(agent), places[name]) for name, agent in names.items()]
    known = list(policies)
    bottom = max((y for _, y in places.values()), default=0) + HEIGHT + _MARGIN
    declared = _declared(system, names, agents)
    ends = {name: _endpoint(agent, agents[agent]) for name, agent in names.items() if agent in agents}
    flows = []
    for sender in ends:
        for receiver in ends:
            pair = Pair(sender, receiver)
            denied = denied_by(ends[sender], ends[receiver], known)
            channels = tuple(sorted(declared.get(pair, ())))
            if sender != receiver and (channels or not denied):
                flows.append(Flow(pair, channels, denied, _line(places[sender], places[receiver], bottom)))
    return SystemGraph(
        tuple(sorted(nodes, key=lambda node: (node.x, node.y))),
        tuple(sorted(flows, key=lambda flow: (flow.state, flow.pair))),
        max((node.x + WIDTH for node in nodes), default=0),
        bottom if nodes else 0,
    )


def member_agents(system: Manifest) -> dict[str, str]:
    """Return the names of the members' Agents, by member."""
    members = (member for member in at(system, "spec", "agents") or () if isinstance(member, dict))
    own = metadata_of(system).get("name")
    return {
        str(member.get("name")): str(at(member, "agentRef", "name") or f"{own}-{member.get('name')}")
        for member in members
    }


def _declared(system: Manifest, names: Mapping[str, str], agents: Mapping[str, Manifest]) -> dict[Pair, set[str]]:
    """Return what channels and tools declare: names of channels by pair; a broker is between the ends of its own."""
    pairs: dict[Pair, set[str]] = {}
    for channel in at(system, "spec", "channels") or ():
        if "broker" in channel:
            continue
        for pair in (Pair(peer, receiver) for peer in channel.get("from", ()) for receiver in channel.get("to", ())):
            pairs.setdefault(pair, set()).add(visible(str(channel.get("name"))))
    member_of = {agent: name for name, agent in names.items()}
    for sender, agent in names.items():
        for tool in _agent_tools(agents.get(agent) or {}):
            if tool in member_of:
                pairs.setdefault(Pair(sender, member_of[tool]), set()).add("a tool")
    return pairs


def _agent_tools(agent: Manifest) -> Iterator[str]:
    for tool in at(agent, "spec", "tools") or ():
        name = at(tool, "agentRef", "name")
        if name:
            yield str(name)


def _endpoint(name: str, agent: Manifest) -> Endpoint:
    labels = {AGENT_LABEL: name, SERVING_LABEL: "true"}
    port = at(agent, "spec", "runtime", "port", default=_DEFAULT_PORT)
    return Endpoint(str(metadata_of(agent).get("namespace", "")), labels, int(port))


def _node(name: str, agent: str, live: Manifest | None, place: tuple[int, int]) -> MemberNode:
    if live is None:
        return MemberNode(visible(name), visible(agent), "Missing", "the Agent does not exist", *place)
    status = assess(live)
    return MemberNode(visible(name), visible(agent), status.health.value, visible(status.message), *place)


def _places(system: Manifest, names: list[str]) -> dict[str, tuple[int, int]]:
    """Return the places of the members: the last wave, which others do not depend on, is on the left."""
    waves: list[Any] = list(reversed(at(system, "status", "waves") or [names]))
    placed = [[name for name in wave if name in names] for wave in waves]
    rest = [name for name in names if not any(name in wave for wave in placed)]
    columns = [*placed, *([rest] if rest else [])]
    return {
        name: (_MARGIN + column * _COLUMN, row * _ROW)
        for column, wave in enumerate(columns)
        for row, name in enumerate(wave)
    }


def _line(source: tuple[int, int], target: tuple[int, int], bottom: int) -> str:
    """Return a line between the sides of two nodes that face each other; it passes behind no other node."""
    is_right = target[0] > source[0]
    side = 1 if is_right else -1
    shift = -6 if target > source else 6  # lines of both directions do not cover each other
    start = (source[0] + (WIDTH if is_right else 0), source[1] + HEIGHT // 2 + shift)
    end = (target[0] + (0 if is_right or source[0] == target[0] else WIDTH), target[1] + HEIGHT // 2 + shift)
    if abs(target[0] - source[0]) == _COLUMN:
        return f"M{start[0]} {start[1]}L{end[0]} {end[1]}"
    if target[0] == source[0]:
        # within the margin: what is further left is not in the picture
        return f"M{start[0]} {start[1]}H{start[0] - _MARGIN // 2 + shift}V{end[1]}H{end[0]}"
    # below all nodes, through the gaps between the columns
    leave = start[0] + side * (_MARGIN + shift)
    arrive = end[0] - side * (_MARGIN + shift)
    return f"M{start[0]} {start[1]}H{leave}V{bottom - _MARGIN // 2 + shift}H{arrive}V{end[1]}H{end[0]}"
