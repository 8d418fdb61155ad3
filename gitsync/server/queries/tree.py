"""The tree of an application: its objects by kind, and under each what it owns, down to the Pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from gitsync.health.assess import assess
from gitsync.objects.health import Health, worst
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.phase import SyncStatus
from gitsync.objects.ref import ref_of
from gitsync.ports import ResourceView
from gitsync.server.formatting import visible
from gitsync.server.queries.objects import by_severity, severity

MOST = 150
"""Nodes of one page; the list shows them all."""
_DEEPEST = 6
"""Levels below an object: a Knative Service has five down to its Pods."""

Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One object in the tree, or a group of one kind when it has no path; ``is_open`` shows problems inside."""

    kind: str
    name: str
    path: str
    health: str
    sync: str
    reason: str
    children: tuple[TreeNode, ...] = ()
    is_open: bool = False
    count: int = 0


@dataclass(slots=True)
class _Budget:  # shared by all branches
    left: int


def tree(resources: Iterable[ResourceView], owned: Owned) -> tuple[tuple[TreeNode, ...], int]:
    """
    Return the groups of an application's objects, those with problems first, and how many objects were left out.

    An object is open when something below it is not healthy; a kind is one group however many objects it has.
    """
    views = sorted(resources, key=by_severity)
    budget = _Budget(MOST)
    # the worst first: what is left out is the least troubled
    nodes = [_object(view, owned, budget) for view in views if budget.left > 0]
    # the worst of a kind is the last one written
    troubled = {visible(view.ref.kind): -severity(view) for view in reversed(views)}
    nodes.sort(key=lambda node: (troubled.get(node.kind, 0), node.kind))
    totals = Counter(visible(view.ref.kind) for view in views)
    groups = [
        _group(kind, tuple(members), totals[kind]) for kind, members in groupby(nodes, key=lambda node: node.kind)
    ]
    return tuple(groups), len(views) - len(nodes)


def _object(view: ResourceView, owned: Owned, budget: _Budget) -> TreeNode:
    budget.left -= 1
    live = view.change.live
    children = _parts(uid_of(live), owned, budget, _DEEPEST) if live is not None else ()
    return TreeNode(
        kind=visible(view.ref.kind),
        name=visible(view.ref.name),
        path=view.ref.path,
        health=view.health.health.value,
        sync=view.sync,
        reason=visible(view.problem or view.health.message),
        children=children,
        is_open=any(_is_bad(child) for child in children),
    )


def owned_parts(uid: str, owned: Owned) -> list[Manifest]:
    """
    Return what an object owns, by path; nothing where it has no uid since it is not in the cluster.

    What another object controls is left out: a member of a system names its namespace as a further owner.
    """
    parts = owned(uid) if uid else ()
    return sorted((part for part in parts if _controller_of(part) in ("", uid)), key=lambda part: ref_of(part).path)


def _controller_of(part: Manifest) -> str:
    owners = metadata_of(part).get("ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), "")


def _parts(uid: str, owned: Owned, budget: _Budget, depth: int) -> tuple[TreeNode, ...]:
    nodes = []
    for part in owned_parts(uid, owned) if depth else ():
        if budget.left <= 0:
            break
        budget.left -= 1
        ref = ref_of(part)
        own = assess(part)
        children = _parts(uid_of(part), owned, budget, depth - 1)
        health = with_parts(own.health, (Health(child.health) for child in children))
        # a ReplicaSet says only how many Pods are ready; its Pod says why
        causes = (child.reason for child in children if health is not own.health and child.health == health.value)
        nodes.append(
            TreeNode(
                kind=visible(ref.kind),
                name=visible(ref.name),
                path=ref.path,
                health=health.value,
                sync="",
                reason=next(causes, visible(own.message)),
                children=children,
                is_open=any(_is_bad(child) for child in children),
            )
        )
    return tuple(nodes)


def with_parts(own: Health, parts: Iterable[Health]) -> Health:
    """Return the health of a part with those of its own parts: a ReplicaSet is Degraded with its Pods."""
    # a kind without a rule says nothing about what owns it
    return worst([own, *(health for health in parts if health is not Health.UNKNOWN)])


def health_with_parts(part: Manifest, owned: Owned, depth: int = _DEEPEST) -> Health:
    """Return the health of a part with all that it owns, as the tree shows it."""
    below = owned_parts(uid_of(part), owned) if depth else []
    return with_parts(assess(part).health, (health_with_parts(child, owned, depth - 1) for child in below))


def _group(kind: str, members: tuple[TreeNode, ...], count: int) -> TreeNode:
    return TreeNode(
        kind=kind,
        name="",
        path="",
        health=worst(Health(member.health) for member in members if member.health != "Unknown").value,
        sync="Synced" if all(member.sync == SyncStatus.SYNCED for member in members) else "OutOfSync",
        reason="",
        children=members,
        is_open=any(_is_bad(member) or member.sync != SyncStatus.SYNCED for member in members),
        count=count,
    )


def _is_bad(node: TreeNode) -> bool:
    return node.health not in ("Healthy", "Suspended") or node.is_open
