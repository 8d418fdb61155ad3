"""The store: revisions, order, history, snapshots, owners."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox import storage as module
from gitsync.sandbox.storage import Gone, ObjectStore, StoreEvent

MAPS = "/configmaps"


def obj(name: str, namespace: str = "a", **meta: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace, **meta}}


def put(store: ObjectStore, name: str, namespace: str = "a", **meta: Any) -> int:
    return store.write(MAPS, f"{namespace}/{name}", obj(name, namespace, **meta)).revision


def test_every_commit_takes_the_next_revision_and_says_it() -> None:
    store = ObjectStore()
    first = put(store, "x")
    gone = store.remove(MAPS, "a/x")
    assert gone.revision == first + 1 == store.revision
    assert gone.obj["metadata"]["resourceVersion"] == str(first + 1)


def test_keys_come_in_the_order_of_the_whole_key() -> None:
    store = ObjectStore()
    for namespace, name in [("b", "1"), ("a-b", "1"), ("a", "2"), ("a", "1")]:
        put(store, name, namespace)
    assert store.collection(MAPS).keys() == ["a-b/1", "a/1", "a/2", "b/1"]
    assert store.collection(MAPS).keys("a") == ["a/1", "a/2"]


def test_a_snapshot_is_the_state_of_its_revision() -> None:
    store = ObjectStore()
    put(store, "kept")
    put(store, "gone")
    then = store.revision
    put(store, "new")
    put(store, "kept", labels={"changed": "yes"})
    store.remove(MAPS, "a/gone")
    snapshot = store.collection(MAPS).at_revision(then)
    assert sorted(snapshot) == ["a/gone", "a/kept"]
    assert "labels" not in snapshot["a/kept"].obj["metadata"]


def test_what_is_older_than_the_history_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY", 3)
    store = ObjectStore()
    revisions = [put(store, f"o{number}") for number in range(6)]
    collection = store.collection(MAPS)
    assert [event.revision for event in collection.since(revisions[2])] == revisions[3:]
    with pytest.raises(Gone):
        collection.since(revisions[1])
    with pytest.raises(Gone):
        collection.at_revision(revisions[0])


def test_a_compaction_forgets_what_was_before() -> None:
    store = ObjectStore()
    first = put(store, "x")
    last = put(store, "y")
    store.collection(MAPS).forget(last)
    with pytest.raises(Gone):
        store.collection(MAPS).since(first)
    assert store.collection(MAPS).since(last) == []


def test_watchers_hear_each_event_after_the_state_changed() -> None:
    store = ObjectStore()
    heard: list[tuple[str, bool]] = []

    def hear(event: StoreEvent) -> None:
        heard.append((event.key, event.key in store.collection(MAPS).objects))

    store.collection(MAPS).watchers["me"] = hear
    put(store, "x")
    store.remove(MAPS, "a/x")
    assert heard == [("a/x", True), ("a/x", False)]


def test_the_journal_has_a_commit_before_anybody_hears_of_it() -> None:
    order: list[str] = []

    class Journal:
        def write(self, resource: str, key: str, revision: int, body: bytes | None) -> None:
            order.append("journal")

    store = ObjectStore(Journal())
    store.observe(lambda resource, event: order.append("observer"))
    put(store, "x")
    assert order == ["journal", "observer"]


def test_objects_are_found_by_the_uid_of_an_owner() -> None:
    store = ObjectStore()
    put(store, "x", ownerReferences=[{"uid": "one"}, {"uid": "two"}])
    assert [stored.obj["metadata"]["name"] for _, stored in store.owned_by("one")] == ["x"]
    put(store, "x", ownerReferences=[{"uid": "two"}])
    assert store.owned_by("one") == []
    store.remove(MAPS, "a/x")
    assert store.owned_by("two") == []
