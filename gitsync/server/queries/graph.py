"""The graph of an application: its objects in columns, what they own, and what they refer to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gitsync.health.assess import assess
from gitsync.kube.kinds import POD
from gitsync.kube.parts import PART_KINDS
from gitsync.kube.references import references
from gitsync.objects.health import Health
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ResourceView
from gitsync.server.formatting import visible
from gitsync.server.queries.object_details import selected_by
from gitsync.server.queries.objects import by_severity, severity
from gitsync.server.queries.tree import Owned, owned_parts, with_parts

MOST: Final = 100
"""Declared objects of one graph; the list shows them all."""
_SINGLE = 12
"""Objects beside the workloads that are nodes of their own; of more, those of a kind without a problem are one node."""
WIDTH = 215
HEIGHT = 40
_COLUMN = 270
_LEFT = 30
"""Room on the left for lines between boxes of the first column."""
_ROW = 52
_LETTERS = 24
_OF_MANY: Final = frozenset({POD, APPLICATION})
"""Parts of which an object may have a thousand: those of one health are one node."""
_WORKLOADS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "ReplicaSet"})

LENSES: Final[Mapping[str, Callable[[ResourceView], str]]] = {
    "health": lambda item: item.health.health.value,
    "drift": lambda item: item.sync,
    "changes": lambda item: item.change.action.value if item.change.is_write else "Synced",
    "risk": lambda item: item.change.risk.value if item.change.is_write else "Synced",
}
"""What the colour and the second line of an object say."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One object, or equal parts of one owner as a group; ``relations`` are its edges in words."""

    path: str
    kind: str
    name: str
    state: str
    x: int
    y: int
    relations: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name as it fits the node."""
        return self.name if len(self.name) <= _LETTERS else f"{self.name[: _LETTERS - 1]}…"


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from the right side of a node to the left side of another one, or between the left sides of a column."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def path(self) -> str:
        """The curve in the syntax of SVG."""
        # between boxes of one column it bends away from them
        bend = _LEFT if self.x1 == self.x2 else -40
        return f"M{self.x1} {self.y1}C{self.x1 - bend} {self.y1} {self.x2 - abs(bend)} {self.y2} {self.x2} {self.y2}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges with their places, the size of the picture, and how many objects are left out."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    left_out: int


@dataclass(frozen=True, slots=True)
class _Part:
    """
    What a declared object owns: a part, such as a Job; its Pods, or Applications, of one health are one node.

    ``depth`` is 0 for what the declared object owns itself; ``url_path`` is empty where several objects are one node.
    """

    owner: str
    path: str
    kind: str
    name: str
    state: str
    depth: int
    url_path: str


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declared object, or several of a kind without a problem as one node."""

    path: str
    kind: str
    name: str
    state: str
    url_path: str


def graph(resources: Iterable[ResourceView], owned: Owned, lens: str) -> Graph:
    """Return the graph of the objects with problems first; ``lens`` is one of ``LENSES``."""
    views = sorted(resources, key=by_severity)
    shown = views[:MOST]
    named = {item.ref.path for item in shown}
    owned_parts = (part for item in shown for part in _parts(item.ref.path, item.change.live, owned))
    # a part that Git declares too is one node
    parts = [part for part in owned_parts if part.path not in named]
    nodes_by_path = _declared(shown, {part.owner for part in parts}, LENSES.get(lens, LENSES["health"]))
    links = [
        (nodes_by_path[source].path, relation, nodes_by_path[target].path)
        for source, relation, target in _links(shown)
        if target in named
    ]
    columns = _columns(shown, nodes_by_path, parts, links)
    places = {
        path: (_LEFT + column * _COLUMN, row * _ROW)
        for column, paths in enumerate(columns)
        for row, path in enumerate(paths)
    }
    links += [(part.owner, "owns", part.path) for part in parts]
    drawn: list[_Declared | _Part] = [*dict.fromkeys(nodes_by_path.values()), *parts]
    words = _relations(links, {node.path: _title(node) for node in drawn})
    nodes = [
        GraphNode(node.url_path, node.kind, node.name, node.state, *places[node.path], words.get(node.path, ()))
        for node in drawn
    ]
    return Graph(
        tuple(sorted(nodes, key=lambda node: (node.x, node.y))),
        tuple(dict.fromkeys(_edge(places[source], places[target]) for source, _, target in links)),
        max(((x + WIDTH) for x, _ in places.values()), default=0),
        max(((y + HEIGHT) for _, y in places.values()), default=0),
        len(views) - len(shown),
    )


def _declared(
    shown: Sequence[ResourceView], owners: Collection[str], read: Callable[[ResourceView], str]
) -> dict[str, _Declared]:
    """Return the node of each declared object by its path; many objects of a kind without a problem share one."""
    beside = [item for item in shown if item.ref.kind not in _WORKLOADS and item.ref.path not in owners]
    calm = [item for item in beside if severity(item) == 0] if len(beside) > _SINGLE else []
    alike: dict[tuple[str, str], list[str]] = {}
    for item in calm:
        alike.setdefault((item.ref.kind, read(item)), []).append(item.ref.path)
    nodes = {
        item.ref.path: _Declared(
            item.ref.path, visible(item.ref.kind), visible(item.ref.name), read(item), item.ref.path
        )
        for item in shown
    }
    for (kind, state), paths in alike.items():
        if len(paths) > 1:
            # with spaces: not the path of an object
            group = _Declared(f"{kind} {state} {len(paths)}", visible(kind), f"{len(paths)} objects", state, "")
            nodes |= dict.fromkeys(paths, group)
    return nodes


def _title(node: _Declared | _Part) -> str:
    """Return how a node is named in the relations of another."""
    if node.name.endswith(" Pods"):
        return node.name
    return f"{node.kind} {node.name}" if node.url_path else f"{node.name} of kind {node.kind}"


def _links(shown: Sequence[ResourceView]) -> list[tuple[str, str, str]]:
    """Return the relations of declared objects: path, what it does, path of the other."""
    links = []
    for item in shown:
        manifest = item.change.live or item.change.desired or {}
        related = (*references(item.ref, manifest), *selected_by(item.ref, manifest, shown))
        links += [(item.ref.path, other.relation, other.ref.path) for other in related]
    return links


def _parts(owner: str, live: Manifest | None, owned: Owned, depth: int = 0) -> list[_Part]:
    """Return what an object owns that runs, down to the Pods; ReplicaSets without Pods are left out."""
    parts: list[_Part] = []
    many: dict[tuple[str, Health], list[ObjectRef]] = {}
    for part in owned_parts(uid_of(live or {}), owned):
        ref = ref_of(part)
        if ref.of in _OF_MANY:
            many.setdefault((ref.kind, assess(part).health), []).append(ref)
        # a Deployment keeps ten old ReplicaSets without Pods (revisionHistoryLimit)
        elif ref.of in PART_KINDS and (ref.kind != "ReplicaSet" or at(part, "spec", "replicas", default=1)):
            below = _parts(ref.path, part, owned, depth + 1)
            # of each part its own ones only: below them theirs are counted in
            state = with_parts(assess(part).health, (Health(item.state) for item in below if item.owner == ref.path))
            parts += [_Part(owner, ref.path, ref.kind, visible(ref.name), state.value, depth, ref.path), *below]
    for (kind, health), refs in many.items():
        name = visible(refs[0].name) if len(refs) == 1 else f"{len(refs)} {kind}s"
        # with spaces: not the path of an object
        url_path = refs[0].path if len(refs) == 1 else ""
        parts.append(_Part(owner, f"{owner} {kind} {health.value}", kind, name, health.value, depth, url_path))
    return parts


def _columns(
    shown: Sequence[ResourceView],
    nodes: Mapping[str, _Declared],
    parts: Sequence[_Part],
    links: Sequence[tuple[str, str, str]],
) -> list[list[str]]:
    """
    Return the paths of each column: objects that own nothing, workloads and owners, and what these own by level.

    Linked ones are near each other.
    """
    owners = {part.owner for part in parts}
    workloads = [item.ref.path for item in shown if item.ref.kind in _WORKLOADS or item.ref.path in owners]
    rank = {path: row for row, path in enumerate(workloads)}
    near = {nodes[item.ref.path].path: len(rank) for item in shown}
    for source, _, target in links:
        for path, neighbour in ((source, target), (target, source)):
            near[path] = min(near[path], rank.get(neighbour, len(rank)))
    others = sorted((path for path in near if path not in rank), key=lambda path: (near[path], path))
    levels = max((part.depth for part in parts), default=-1) + 1
    # what an object owns is in the next column, so that no line passes behind a box between them
    return [others, workloads, *([part.path for part in parts if part.depth == level] for level in range(levels))]


def _relations(links: Iterable[tuple[str, str, str]], names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the relations of each object in words, by its path."""
    relations: dict[str, dict[str, None]] = {}
    for source, relation, target in links:
        name = names[target]
        relations.setdefault(source, {})[f"{relation} {name}"] = None
    return {path: tuple(words) for path, words in relations.items()}


def _edge(source: tuple[int, int], target: tuple[int, int]) -> Edge:
    """Return the line between two boxes, from the right side of the one further left to the left side of the other."""
    first, second = sorted((source, target))
    start = first[0] + (WIDTH if first[0] != second[0] else 0)
    return Edge(start, first[1] + HEIGHT // 2, second[0], second[1] + HEIGHT // 2)
