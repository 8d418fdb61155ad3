"""The guard that keeps what Agents and systems run when gitsync is removed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

from gitsync.agents.keys import ORDERED_DELETION
from gitsync.kube.kinds import CRD
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.child_reconciler import ChildrenCache
from gitsync.operator.removal import CHILDREN_FINALIZER, RemovalGuard
from gitsync.sync.deletion import Installation
from tests.agents.factories import agent, member, system
from tests.fakes.ports import FakeCluster

DELETED = "2026-11-20T10:00:00Z"
DEFINITION = ObjectRef(CRD.group, CRD.kind, "", "multiagentsystems.agents.gitsync.dev")


class Cluster(FakeCluster):
    """A cluster that removes fields, and keeps each state of the objects that a watch may see."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[Manifest] = []

    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        changed = deepcopy(self.objects[ref_of(live)])
        for pointer in pointers:
            *path, index = pointer.split("/")[1:]
            holder: Any = changed
            for name in path:
                holder = holder[name]
            del holder[int(index)]
        self.states.append(changed)
        return self.put(changed)


def test_no_state_of_a_removal_looks_like_an_ordered_deletion() -> None:
    """With the order of deletion alone, and a member observed as before its release, the member would be deleted."""
    cluster = Cluster()
    cluster.put({"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD.kind, "metadata": {"name": DEFINITION.name}})
    cluster.objects[DEFINITION]["metadata"]["deletionTimestamp"] = DELETED
    declared = system(member("a"))
    finalizers = [ORDERED_DELETION, CHILDREN_FINALIZER]
    leaving = {**metadata_of(declared), "finalizers": finalizers, "deletionTimestamp": DELETED}
    live = cluster.put({**declared, "metadata": leaving})
    owners = [{"kind": "MultiAgentSystem", "uid": metadata_of(live)["uid"], "controller": True}]
    child = agent("desk-a")
    child = cluster.put({**child, "metadata": {**metadata_of(child), "ownerReferences": owners}})
    children: Any = SimpleNamespace(
        children=lambda uid, namespace: {ref_of(child): child},
        writer_of=lambda owner: SimpleNamespace(destination=SimpleNamespace(service_account=""), namespace="shop"),
    )
    ownership: Any = SimpleNamespace(manager=lambda manifest: None)
    inner: Any = None  # what deletes the members is never asked
    guard = RemovalGuard(inner, children, cluster, Installation(cluster), ownership)

    assert guard.reconcile(live, ChildrenCache()) is None

    assert metadata_of(cluster.objects[ref_of(child)])["ownerReferences"] == []
    states = [set(metadata_of(state)["finalizers"]) for state in cluster.states if state["kind"] == "MultiAgentSystem"]
    assert states == [{CHILDREN_FINALIZER}, set()]
