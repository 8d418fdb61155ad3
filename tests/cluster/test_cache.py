"""Local copies follow the cluster, remember our own writes, and know who owns what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitsync.cluster.cache import InformerCache, _KindStore
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.ports import ApiResource
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests.waiting import until

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
JOB = ApiResource("batch", "v1", "Job", "jobs", True)


def job(name: str, complete: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    condition = {"type": "Complete", "status": complete, "lastTransitionTime": "2026-03-01T12:00:00Z"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"ttlSecondsAfterFinished": 0},
        "status": {"conditions": [condition]},
    }


def config_map(name: str, owner: str = "", **data: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "default"}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def live(client: Client) -> Iterator[InformerCache]:
    view = InformerCache(client)
    yield view
    view.stop()


def data_of(live: InformerCache, name: str) -> object:
    found = live.get(CONFIG_MAP, "default", name)
    return found["data"] if found is not None else None


def test_a_followed_kind_is_complete_and_stays_true(cluster: KubernetesCluster, live: InformerCache) -> None:
    cluster.apply(config_map("a", x="1"), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    assert data_of(live, "a") == {"x": "1"}
    assert live.get(CONFIG_MAP, "default", "absent") is None
    cluster.apply(config_map("a", x="2"), manager="m")
    until(lambda: data_of(live, "a") == {"x": "2"})
    found = cluster.read(ObjectRef("", "ConfigMap", "default", "a"), "v1")
    assert found is not None
    cluster.delete(ObjectRef("", "ConfigMap", "default", "a"), "v1", uid=uid_of(found))
    until(lambda: live.get(CONFIG_MAP, "default", "a") is None)


def test_many_objects_arrive_in_pages(cluster: KubernetesCluster, live: InformerCache) -> None:
    for number in range(520):
        cluster.apply(config_map(f"c{number}", x="1"), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    assert sum(item["metadata"]["name"].startswith("c") for item in live.all(CONFIG_MAP)) == 520
    assert all(item["kind"] == "ConfigMap" for item in live.all(CONFIG_MAP))


def test_many_objects_are_found_at_once(cluster: KubernetesCluster, live: InformerCache) -> None:
    for name in ("a", "b", "c"):
        cluster.apply(config_map(name), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    refs = [ObjectRef("", "ConfigMap", "default", name) for name in ("a", "b", "absent")]
    assert live.find(CONFIG_MAP, refs) == {ref: live.get(CONFIG_MAP, "default", ref.name) for ref in refs[:2]}


def test_equal_managed_fields_are_kept_once(cluster: KubernetesCluster, live: InformerCache) -> None:
    """Of objects that were listed, of those that a watch brought, and of our own writes."""
    cluster.apply(config_map("listed", x="1"), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    cluster.apply(config_map("watched", x="1"), manager="m")
    until(lambda: data_of(live, "watched") == {"x": "1"})
    live.observe_write(CONFIG_MAP, cluster.apply(config_map("written", x="1"), manager="m"))
    cluster.apply(config_map("other", y="1"), manager="m")
    until(lambda: data_of(live, "other") == {"y": "1"})

    def entry(name: str) -> Manifest:
        found = live.get(CONFIG_MAP, "default", name)
        assert found is not None
        (manager,) = found["metadata"]["managedFields"]
        return {**manager, "kind": found["kind"], "namespace": found["metadata"]["namespace"]}

    listed, watched, written = map(entry, ("listed", "watched", "written"))
    for name in ("fieldsV1", "manager", "operation", "apiVersion", "fieldsType", "kind", "namespace"):
        assert listed[name] is watched[name] is written[name], name
    assert entry("other")["fieldsV1"] != listed["fieldsV1"]


def test_our_own_write_is_seen_before_its_event_and_an_older_event_does_not_undo_it(live: InformerCache) -> None:
    live.follow([(CONFIG_MAP, "")], 60)
    newer = {**config_map("a", x="2")}
    newer["metadata"] = {**newer["metadata"], "resourceVersion": "9000000", "uid": "u"}
    older = {**config_map("a", x="1")}
    older["metadata"] = {**older["metadata"], "resourceVersion": "8999999", "uid": "u"}
    live.observe_write(CONFIG_MAP, newer)
    live.observe_write(CONFIG_MAP, older)
    assert data_of(live, "a") == {"x": "2"}


def test_the_answer_to_a_write_corrects_its_event(live: InformerCache) -> None:
    """A watch that was opened before its definition changed leaves new fields out."""
    live.follow([(CONFIG_MAP, "")], 60)
    whole, pruned = config_map("a", x="1", y="1"), config_map("a", x="1")
    for item in (whole, pruned):
        item["metadata"] = {**item["metadata"], "resourceVersion": "9000000", "uid": "u"}
    live.observe_write(CONFIG_MAP, pruned)
    live.observe_write(CONFIG_MAP, whole)
    assert data_of(live, "a") == {"x": "1", "y": "1"}


def at_version(version: int, **data: str) -> Manifest:
    """Return a ConfigMap as it is at a resourceVersion."""
    item = config_map("a", **data)
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version), "uid": "u"}}


def test_a_list_from_before_a_write_does_not_undo_it(live: InformerCache) -> None:
    """The list that a changed definition causes may be read while its resources are written."""
    store = _KindStore(live)
    for listed in ({}, {"default/a": at_version(1, x="1")}):
        store.put("default/a", at_version(5, x="5"), is_answer=True)
        store.replace(listed, "4")
        assert store.items["default/a"]["data"] == {"x": "5"}


def test_a_list_decides_about_what_an_event_reported(live: InformerCache) -> None:
    store = _KindStore(live)
    store.put("default/a", at_version(5), is_answer=True)
    store.put("default/a", at_version(5))
    # lower, as after a backup of etcd was restored
    store.replace({}, "4")
    assert store.items == {}


def test_a_list_decides_about_an_older_write(live: InformerCache) -> None:
    store = _KindStore(live)
    store.put("default/a", at_version(5), is_answer=True)
    store.replace({}, "6")
    assert store.items == {}


def test_a_list_from_before_a_delete_does_not_undo_it(live: InformerCache) -> None:
    store = _KindStore(live)
    store.put("default/a", at_version(5), is_answer=True)
    store.remove("default/a", at_version(5))
    store.replace({"default/a": at_version(5)}, "5")
    assert store.items == {}


def test_a_kind_is_listed_again_on_request(cluster: KubernetesCluster, live: InformerCache) -> None:
    live.follow([(CONFIG_MAP, "")], 60)
    written = cluster.apply(config_map("a", x="1"), manager="m")
    until(lambda: data_of(live, "a") == {"x": "1"})
    live.observe_write(CONFIG_MAP, {**written, "data": {}})
    live.relist(GroupKind("apps", "ConfigMap"), 0.0)
    live.relist(GroupKind("", "ConfigMap"), 0.0)
    until(lambda: data_of(live, "a") == {"x": "1"})


def test_the_late_answer_to_a_write_does_not_bring_a_deleted_object_back(
    cluster: KubernetesCluster, live: InformerCache
) -> None:
    live.follow([(CONFIG_MAP, "")], 60)
    written = cluster.apply(config_map("a", x="1"), manager="m")
    until(lambda: live.get(CONFIG_MAP, "default", "a") is not None)
    cluster.delete(ObjectRef("", "ConfigMap", "default", "a"), "v1", uid=uid_of(written))
    until(lambda: live.get(CONFIG_MAP, "default", "a") is None)
    live.observe_write(CONFIG_MAP, written)
    assert live.get(CONFIG_MAP, "default", "a") is None
    cluster.apply(config_map("a", x="2"), manager="m")
    until(lambda: data_of(live, "a") == {"x": "2"})


def test_subscribers_hear_before_and_after(cluster: KubernetesCluster, live: InformerCache) -> None:
    heard: list[tuple[object, object]] = []

    def listen(before: Manifest | None, after: Manifest | None) -> None:
        if "kube-root-ca.crt" not in str((before or after or {}).get("metadata")):
            heard.append(((before or {}).get("data"), (after or {}).get("data")))

    live.subscribe(listen, lambda: None)
    live.follow([(CONFIG_MAP, "")], 60)
    cluster.apply(config_map("a", x="1"), manager="m")
    cluster.apply(config_map("a", x="2"), manager="m")
    until(lambda: len(heard) == 2)
    assert heard == [(None, {"x": "1"}), ({"x": "1"}, {"x": "2"})]


def test_owners_and_dependents_are_known(cluster: KubernetesCluster, live: InformerCache) -> None:
    owner = cluster.apply(config_map("owner"), manager="m")
    part = cluster.apply(config_map("part", owner=uid_of(owner)), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    assert [item["metadata"]["name"] for item in live.dependents(uid_of(owner))] == ["part"]
    assert [item["metadata"]["name"] for item in live.owners(part)] == ["part", "owner"]


@pytest.mark.parametrize("kind", [FaultKind.DROP_WATCH, FaultKind.EXPIRE_WATCH])
def test_a_watch_that_breaks_or_expires_misses_nothing(
    server: Sandbox, cluster: KubernetesCluster, live: InformerCache, kind: FaultKind
) -> None:
    live.follow([(CONFIG_MAP, "")], 60)
    server.inject(InjectedFault(kind, verb="watch", resource="configmaps", count=1))
    cluster.apply(config_map("a", x="1"), manager="m")
    until(lambda: data_of(live, "a") == {"x": "1"})
    live.follow([(CONFIG_MAP, "")], 60)


@pytest.mark.parametrize("kind", [None, FaultKind.EXPIRE_WATCH], ids=["deleted", "absent from the next list"])
def test_the_end_of_a_deleted_object_is_remembered(
    server: Sandbox, live: InformerCache, kind: FaultKind | None
) -> None:
    live.follow([(JOB, "")], 60)
    for name, status in (("done", "True"), ("running", "False")):
        live.observe_write(JOB, job(name, status))
    assert live.last_finished(ObjectRef("batch", "Job", "default", "done")) is None
    if kind is None:
        live.observe_delete(JOB, job("done", "True"))
        live.observe_delete(JOB, job("running", "False"))
    else:
        server.inject(InjectedFault(kind, verb="watch", resource="jobs.batch", count=1))
    until(lambda: live.get(JOB, "default", "running") is None)
    assert live.last_finished(ObjectRef("batch", "Job", "default", "done")) == job("done", "True")
    assert live.last_finished(ObjectRef("batch", "Job", "default", "running")) is None


def test_a_server_that_is_gone_makes_the_copy_doubtful_but_keeps_it(
    server: Sandbox, cluster: KubernetesCluster, live: InformerCache
) -> None:
    cluster.apply(config_map("a", x="1"), manager="m")
    live.follow([(CONFIG_MAP, "")], 60)
    server.stop()

    def doubted() -> bool:
        try:
            live.follow([(CONFIG_MAP, "")], 0.1)
        except ClusterUnavailable as error:
            return "may be out of date" in str(error)
        return False

    until(doubted)
    assert data_of(live, "a") == {"x": "1"}


def test_a_kind_that_cannot_be_listed_is_not_taken_for_empty(server: Sandbox, live: InformerCache) -> None:
    server.inject(InjectedFault(FaultKind.ERROR, verb="list", resource="configmaps", code=503))
    with pytest.raises(ClusterUnavailable, match="has not been listed yet"):
        live.follow([(CONFIG_MAP, "")], 0.05)
    server.clear_faults()
    live.follow([(CONFIG_MAP, "")], 60)
