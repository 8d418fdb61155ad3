"""The graph of a MultiAgentSystem: members in waves, and who may talk to whom, as declared and as allowed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitsync.agents.keys import AGENT_LABEL, SERVING_LABEL
from gitsync.health.assess import assess
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.server.formatting import visible
from gitsync.server.rows.systems.policies import Endpoint, denied_by

WIDTH: Final = 190
HEIGHT: Final = 44
_COLUMN, _ROW = 300, 74
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
    x1: int
    y1: int
    x2: int
    y2: int

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
    known, declared = list(policies), _declared(system, names, agents)
    ends = {name: _endpoint(agent, agents[agent]) for name, agent in names.items() if agent in agents}
    flows = []
    for sender in ends:
        for receiver in ends:
            pair = Pair(sender, receiver)
            denied = denied_by(ends[sender], ends[receiver], known)
            channels = tuple(sorted(declared.get(pair, ())))
            if sender != receiver and (channels or not denied):
                flows.append(Flow(pair, channels, denied, *_line(places[sender], places[receiver])))
    return SystemGraph(
        tuple(sorted(nodes, key=lambda node: (node.x, node.y))),
        tuple(sorted(flows, key=lambda flow: (flow.state, flow.pair))),
        max((node.x + WIDTH for node in nodes), default=0),
        max((node.y + HEIGHT for node in nodes), default=0),
    )


def member_agents(system: Manifest) -> dict[str, str]:
    """Return the names of the members' Agents, by member."""
    members = (one for one in at(system, "spec", "agents") or () if isinstance(one, dict))
    own = metadata_of(system).get("name")
    return {str(one.get("name")): str(at(one, "agentRef", "name") or f"{own}-{one.get('name')}") for one in members}


def _declared(system: Manifest, names: Mapping[str, str], agents: Mapping[str, Manifest]) -> dict[Pair, set[str]]:
    """Return what channels and tools declare: names of channels by pair; a broker is between the ends of its own."""
    found: dict[Pair, set[str]] = {}
    for channel in at(system, "spec", "channels") or ():
        if "broker" in channel:
            continue
        for pair in (Pair(one, other) for one in channel.get("from", ()) for other in channel.get("to", ())):
            found.setdefault(pair, set()).add(visible(str(channel.get("name"))))
    member_of = {agent: name for name, agent in names.items()}
    for sender, agent in names.items():
        for tool in _agent_tools(agents.get(agent) or {}):
            if tool in member_of:
                found.setdefault(Pair(sender, member_of[tool]), set()).add("a tool")
    return found


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
        name: (column * _COLUMN, row * _ROW) for column, wave in enumerate(columns) for row, name in enumerate(wave)
    }


def _line(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return a line between the sides of two nodes that face each other."""
    is_right = other[0] > one[0]
    start = one[0] + (WIDTH if is_right else 0)
    end = other[0] + (0 if is_right or one[0] == other[0] else WIDTH)
    shift = -6 if is_right else 6  # lines of both directions do not cover each other
    return start, one[1] + HEIGHT // 2 + shift, end, other[1] + HEIGHT // 2 + shift
