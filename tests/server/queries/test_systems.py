"""What NetworkPolicies allow between Pods, against the examples of the Kubernetes documentation."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.server.queries.systems import HEIGHT, WIDTH, Endpoint, Flow, SystemGraph, denied_by, system_graph

FRONT, BACK = Endpoint("shop", {"app": "front"}, 8080), Endpoint("shop", {"app": "back"}, 6379)
FAR = Endpoint("other", {"app": "front"}, 8080)
TO_BACK: dict[str, Any] = {"podSelector": {"matchLabels": {"app": "back"}}}
ONLY_FRONT = {"from": [{"podSelector": {"matchLabels": {"app": "front"}}}]}


def policy(namespace: str = "shop", **spec: Any) -> Manifest:
    metadata = {"name": "p", "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("sender", "given", "denied"),
    [
        (FRONT, None, ""),
        (FRONT, policy(podSelector={}), "ingress of p"),
        (FRONT, policy(podSelector={}, ingress=[{}]), ""),
        (FRONT, policy(podSelector={}, policyTypes=["Egress"]), "egress of p"),
        (FRONT, policy(podSelector={}, egress=[{}]), "ingress of p"),
        (FRONT, policy("elsewhere", podSelector={}), ""),
        (FRONT, policy(podSelector={"matchLabels": {"app": "x"}}), ""),
        (FRONT, policy(**TO_BACK, ingress=[ONLY_FRONT]), ""),
        (FAR, policy(**TO_BACK, ingress=[ONLY_FRONT]), "ingress of p"),
        (FAR, policy(**TO_BACK, ingress=[{"from": [{"namespaceSelector": {}}]}]), ""),
        (
            FAR,
            policy(
                **TO_BACK,
                ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}]}],
            ),
            "",
        ),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6379}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6000, "endPort": 7000}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 80}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"protocol": "UDP"}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]), "ingress of p"),
    ],
)
def test_policies_deny_what_no_rule_allows(sender: Endpoint, given: Manifest | None, denied: str) -> None:
    assert denied_by(sender, BACK, [given] if given else []) == denied


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
