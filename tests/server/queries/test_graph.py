"""The graph of an application."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gitsync.objects.change import Action, Risk
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.ports import ResourceView
from gitsync.server.queries.graph import MOST, WIDTH, graph
from gitsync.server.queries.tree import TreeNode, health_with_parts, tree
from tests.server.fakes import resource


def deployment() -> ResourceView:
    """Return a Deployment that reads a ConfigMap."""
    item = resource("web", "Deployment")
    container = {"name": "a", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    spec = {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}
    live = {**(item.change.live or {}), "apiVersion": "apps/v1", "spec": spec}
    return replace(item, change=replace(item.change, live=live))


def part(kind: str, name: str, phase: str = "Running") -> Manifest:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    api = "v1" if kind == "Pod" else "apps/v1"
    ready = {"type": "Ready", "status": "True"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "status": {"phase": phase, "conditions": [ready]}}


OWNED = {"uid-web": (part("ReplicaSet", "web-1"),), "uid-web-1": (part("Pod", "web-1-a"), part("Pod", "web-1-b"))}


def owned(uid: str) -> tuple[Manifest, ...]:
    return OWNED.get(uid, ())


def test_objects_stand_in_columns_with_what_they_own_and_use() -> None:
    made = graph([resource("settings"), deployment()], owned, "health")
    assert [(node.kind, node.name) for node in made.nodes] == [
        ("ConfigMap", "settings"),
        ("Deployment", "web"),
        ("ReplicaSet", "web-1"),
        ("Pod", "2 Pods"),
    ]
    assert len({node.x for node in made.nodes}) == 4
    relations = {node.name: node.relations for node in made.nodes}
    assert relations["web"] == ("reads ConfigMap settings", "owns ReplicaSet web-1")
    assert relations["web-1"] == ("owns 2 Pods",)
    assert len(made.edges) == 3


def test_the_applications_of_a_set_are_a_node_for_each_health() -> None:
    apps = tuple(application(f"app-{number}", "Degraded" if number == 7 else "Healthy") for number in range(1000))
    item = resource("shops", "ApplicationSet")
    live = {**(item.change.live or {}), "apiVersion": API_VERSION}
    sets = replace(item, change=replace(item.change, live=live))
    made = graph([sets], lambda uid: apps if uid == uid_of(live) else (), "health")
    assert [(node.kind, node.name, node.state) for node in made.nodes][1:] == [
        ("Application", "999 Applications", "Healthy"),
        ("Application", "app-7", "Degraded"),
    ]


def application(name: str, health: str) -> Manifest:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    return {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "status": {"health": health}}


def test_a_lens_says_what_the_plan_does() -> None:
    item = resource("gone", risk=Risk.DANGEROUS)
    pruned = replace(item, change=replace(item.change, action=Action.PRUNE))
    states = [graph([pruned], owned, lens).nodes[0].state for lens in ("health", "changes", "risk", "unknown")]
    assert states == ["Healthy", "prune", "Dangerous", "Healthy"]


def test_what_does_not_fit_is_counted() -> None:
    made = graph([resource(f"thing-{n}", sync="OutOfSync") for n in range(MOST + 5)], owned, "health")
    assert (len(made.nodes), made.left_out) == (MOST, 5)


def test_many_objects_without_a_problem_are_one_node_of_their_kind() -> None:
    items = [*(resource(f"thing-{n}") for n in range(40)), resource("odd", sync="OutOfSync"), deployment()]
    made = graph([resource("settings"), *items], owned, "health")
    shown = {(node.kind, node.name, node.path) for node in made.nodes}
    assert ("ConfigMap", "41 objects", "") in shown
    assert ("ConfigMap", "odd", "/ConfigMap/shop/odd") in shown
    assert len(made.nodes) == 5
    relations = {node.name: node.relations for node in made.nodes}
    assert relations["web"] == ("reads 41 objects of kind ConfigMap", "owns ReplicaSet web-1")
    assert made.height < 200


def test_what_an_object_owns_is_in_the_next_column() -> None:
    made = graph([resource("settings"), deployment()], owned, "health")
    columns = {node.name: node.x for node in made.nodes}
    assert [columns[name] for name in ("settings", "web", "web-1", "2 Pods")] == sorted(columns.values())
    step = columns["web"] - columns["settings"]
    assert all(edge.x2 - edge.x1 == step - WIDTH for edge in made.edges)


def test_a_part_has_the_same_state_in_tree_and_graph() -> None:
    crash = {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {}}}
    pod = part("Pod", "web-1-a")
    pod["status"] = {"phase": "Running", "containerStatuses": [{**crash, "ready": False, "restartCount": 4}]}
    replica_set = {
        **part("ReplicaSet", "web-1"),
        "spec": {"replicas": 1},
        "status": {"replicas": 1, "readyReplicas": 0},
    }
    parts = {"uid-web": (replica_set,), "uid-web-1": (pod,)}

    def below(uid: str) -> tuple[Manifest, ...]:
        return parts.get(uid, ())

    def nodes_of(nodes: tuple[TreeNode, ...]) -> dict[str, TreeNode]:
        return {
            **{node.name: node for node in nodes},
            **{name: node for parent in nodes for name, node in nodes_of(parent.children).items()},
        }

    of_tree = nodes_of(tree([deployment()], below)[0])
    of_graph = {node.name: node.state for node in graph([deployment()], below, "health").nodes}
    for name in ("web-1", "web-1-a"):
        assert of_tree[name].health == of_graph[name] == "Degraded", name
    assert of_tree["web-1"].reason == of_tree["web-1-a"].reason
    # the page of the object shows it as well
    assert health_with_parts(replica_set, below).value == "Degraded"


def test_what_another_object_controls_is_shown_below_that_one_only() -> None:
    owners = [{"kind": "Deployment", "uid": "uid-web", "controller": True}, {"kind": "Namespace", "uid": "uid-shop"}]
    member = part("ReplicaSet", "web-1")
    member["metadata"]["ownerReferences"] = owners
    parts = {"uid-web": (member,), "uid-shop": (member,)}

    def below(uid: str) -> tuple[Manifest, ...]:
        return parts.get(uid, ())

    items = [resource("shop", "Namespace"), deployment()]
    relations = {node.name: node.relations for node in graph(items, below, "health").nodes}
    assert relations == {"shop": (), "web": ("owns ReplicaSet web-1",), "web-1": ()}
    children = {node.name: len(node.children) for group in tree(items, below)[0] for node in group.children}
    assert children == {"shop": 0, "web": 1}


STYLE = (Path(__file__).parents[3] / "web" / "static" / "style.css").read_text(encoding="utf-8")


def luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of WCAG 2.2 of a colour in sRGB, whose parts are 0 to 255."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (part / 255 for part in colour)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(*colours: Sequence[float]) -> float:
    darker, lighter = sorted(map(luminance, colours))
    return (lighter + 0.05) / (darker + 0.05)


def colour_of(name: str, theme: int) -> tuple[int, ...]:
    """Return a colour of the style sheet, of the light theme (0) or the dark one (1)."""
    (values,) = re.findall(rf"--{name}: light-dark\(([^)]*)\)", STYLE)
    text = values.split(", ")[theme].removeprefix("#")
    digits = text if len(text) == 6 else "".join(letter * 2 for letter in text)
    return tuple(int(digits[start : start + 2], 16) for start in (0, 2, 4))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_lines_of_a_graph_are_told_from_the_page(theme: int) -> None:
    """By the 3:1 of success criterion 1.4.11 of WCAG 2.2."""
    (share,) = re.findall(r"\.graph path \{[^}]*var\(--soft\) (\d+)%, var\(--card\)", STYLE)
    part = int(share) / 100
    soft, card = colour_of("soft", theme), colour_of("card", theme)
    line = [ink * part + ground * (1 - part) for ink, ground in zip(soft, card, strict=True)]
    assert contrast(line, colour_of("bg", theme)) >= 3
    assert "opacity" not in "".join(re.findall(r"\.graph [^{]*\{([^}]*)\}", STYLE))
