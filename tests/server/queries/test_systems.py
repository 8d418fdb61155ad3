"""The picture of a system, and who may talk to whom in it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from gitsync.server.queries.systems import HEIGHT, WIDTH, Flow, SystemGraph, system_graph


def drawn(*waves: str) -> SystemGraph:
    """Return the picture of a system in which each member may talk to each other one; waves as words of letters."""
    names = [name for wave in waves for name in wave]
    peers = [{"name": "all", "from": names, "to": names}]
    system = {
        "metadata": {"name": "desk", "namespace": "shop"},
        "spec": {"agents": [{"name": name} for name in names], "channels": peers},
        "status": {"waves": [list(wave) for wave in waves]} if len(waves) > 1 else {},
    }
    agents = {f"desk-{name}": {"kind": "Agent", "metadata": {"name": name, "namespace": "shop"}} for name in names}
    return system_graph(system, agents, [])


def points(flow: Flow) -> list[tuple[float, float]]:
    """Return the corners of a line."""
    x = y = 0.0
    corners = []
    for command, numbers in re.findall(r"([MLHV])([-\d. ]+)", flow.path):
        values = [float(number) for number in numbers.split()]
        x = values[0] if command != "V" else x
        y = values[-1] if command != "H" else y
        corners.append((x, y))
    return corners


def on_the_way(flow: Flow) -> list[tuple[float, float]]:
    """Return points of a line, close to one another."""
    steps = 50
    return [
        (x1 + (x2 - x1) * step / steps, y1 + (y2 - y1) * step / steps)
        for (x1, y1), (x2, y2) in pairwise(points(flow))
        for step in range(steps + 1)
    ]


@pytest.mark.parametrize(
    "waves", [("ab",), ("abcde",), ("a", "b"), ("ab", "cd", "e"), ("a", "bcd", "e", "fg")], ids="-".join
)
def test_lines_pass_behind_no_member_and_are_all_in_the_picture(waves: tuple[str, ...]) -> None:
    graph = drawn(*waves)
    count = sum(map(len, waves))
    assert len(graph.flows) == count * (count - 1)
    for flow in graph.flows:
        for x, y in on_the_way(flow):
            assert 0 <= x <= graph.width, (flow.pair, flow.path)
            assert 0 <= y <= graph.height, (flow.pair, flow.path)
            behind = [node.name for node in graph.nodes if 0 < x - node.x < WIDTH and 0 < y - node.y < HEIGHT]
            assert behind == [], (flow.pair, flow.path)


def test_lines_of_both_directions_do_not_cover_each_other() -> None:
    for waves in (("ab",), ("a", "b"), ("a", "b", "c")):
        flows = {flow.pair: set(points(flow)) for flow in drawn(*waves).flows}
        for pair, corners in flows.items():
            assert not corners & flows[type(pair)(pair.receiver, pair.sender)], pair
