"""One application from commit to cluster: sync, drift, prune, refusals, and quiet."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, LiveCache
from gitsync.sync.observe import Observation, Selection, observe
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.waiting import despite_conflicts, until

LIST = "kind: Kustomization\nresources: [a.yaml]\n"


def test_a_commit_reaches_the_cluster_and_the_status_says_so(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "shop/web.yaml": deployment("web")})
    world.application()
    world.start()
    status = world.synced(commit)
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    assert found["metadata"]["labels"]["gitsync.dev/application"] == "shop"
    assert status["resources"]["total"] == 2
    revision = status["revision"]
    assert (revision["fetched"], revision["applied"]) == (commit, commit)
    assert (revision["message"], revision["author"]) == ("first", "Ada")
    assert {entry["id"] for entry in status["inventory"]} == {"/ConfigMap/shop/a", "apps/Deployment/shop/web"}
    assert all(entry["uid"] for entry in status["inventory"])
    assert [(entry["outcome"], entry["revision"]) for entry in status["history"]] == [("Succeeded", commit)]


def test_the_next_commit_follows_and_what_it_no_longer_declares_is_pruned(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "shop/b.yaml": config_map("b", x="1")})
    world.application()
    world.start()
    world.synced(first)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2"), "shop/b.yaml": None})
    status = world.synced(second)
    assert world.get("ConfigMap", "b") is None
    assert [entry["id"] for entry in status["inventory"]] == ["/ConfigMap/shop/a"]
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "2"}


def test_drift_is_healed_at_once_and_recorded_before_it_is_reverted(world: World) -> None:
    commit = world.repo.commit("first", {"shop/web.yaml": deployment("web", replicas=2)})
    world.application()
    world.start()
    world.synced(commit)
    path = "/apis/apps/v1/namespaces/shop/deployments/web"

    def scale() -> None:
        live = world.client.get(path)
        spec = {**live["spec"], "replicas": 5}
        world.client.send("PUT", path, {**live, "spec": spec}, {"fieldManager": "kubectl-edit"})

    despite_conflicts(scale)
    until(lambda: (world.get("Deployment", "web", api="apps/v1") or {})["spec"]["replicas"] == 2, 3)
    until(lambda: (world.status().get("drift") or {}).get("correctedTotal") == 1)
    record = world.controller.records.history(f"{NAMESPACE}/shop")[0]
    assert record.trigger == "drift"
    assert record.outcome is Outcome.SUCCEEDED
    difference = record.steps[0].differences[0]
    assert (difference["path"], difference["desired"], difference["live"]) == (".spec.replicas", 2, 5)
    assert difference["owners"][0]["manager"] == "kubectl-edit"
    assert difference["owners"][0]["time"]
    audits = [audit for audit in world.controller.records.audit_records() if audit.details.get("differences")]
    intent = next(audit for audit in audits if audit.outcome is Outcome.INTENDED)
    assert intent.details["differences"][0]["live"] == 5
    events = [event for event in world.controller.view.events() if event.kind == "drift"]
    assert "kubectl-edit" in events[-1].message


def test_drift_is_only_reported_with_self_heal_off(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"selfHeal": False})
    world.start()
    world.synced(commit)
    world.client.apply(
        "/api/v1/namespaces/shop/configmaps/a",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "9"}},
        {"fieldManager": "else", "force": "true"},
    )
    status = world.in_phase("Drifted")
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"]["x"] == "9"
    assert status["sync"] == "OutOfSync"
    assert status["drift"]["objects"] == 1


def test_a_deleted_object_comes_back(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    found = world.get("ConfigMap", "a")
    assert found is not None
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: world.get("ConfigMap", "a") is not None, 2)


def test_a_broken_commit_leaves_the_cluster_alone_and_names_file_and_line(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    world.repo.commit("broken", {"shop/a.yaml": "apiVersion: v1\nkind: ConfigMap\n\tmetadata: {}\n"})
    until(lambda: world.condition("Rendered").get("status") == "False", 5, world.status)
    assert "shop/a.yaml:3" in world.condition("Rendered")["message"]
    assert world.condition("Stalled")["status"] == "True"
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    assert (world.status()["sync"], world.status()["health"]) == ("OutOfSync", "Healthy")
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: world.get("ConfigMap", "a") is not None, 3)  # the last good commit is still kept up
    fixed = world.repo.commit("fixed", {"shop/a.yaml": config_map("a", x="2")})
    world.synced(fixed)
    assert world.condition("Rendered")["status"] == "True"


def test_an_unknown_field_is_refused_before_the_first_write(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    wrong = deployment("web").replace("replicas: 2", "replcas: 2")
    world.repo.commit("wrong", {"shop/a.yaml": config_map("a", x="2"), "shop/web.yaml": wrong})
    until(lambda: world.condition("Rendered").get("status") == "False", 5, world.status)
    message = world.condition("Rendered")["message"]
    assert "replcas" in message
    assert "shop/web.yaml:6" in message
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}


def test_one_refused_object_fails_alone_and_the_next_commit_cures_it(world: World) -> None:
    bad = config_map("Not_A_Name", x="1")
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "shop/bad.yaml": bad})
    world.application()
    world.start()
    status = world.in_phase("Failed")
    assert world.get("ConfigMap", "a") is not None
    assert status["problems"][0]["object"] == "ConfigMap shop/Not_A_Name"
    assert status["revision"].get("applied") != first
    fixed = world.repo.commit("fixed", {"shop/bad.yaml": config_map("good", x="1")})
    world.synced(fixed)
    assert "problems" not in world.status()


@pytest.mark.slow
def test_an_unchanged_application_asks_and_writes_nothing_for_twenty_intervals(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "shop/web.yaml": deployment("web")})
    world.application()
    world.start()
    world.synced(commit)
    until(lambda: world.status()["health"] == "Healthy", 10, world.status)
    world.quiet()
    before = requests(world)
    time.sleep(20)
    assert requests(world) - before == 0


def requests(world: World) -> int:
    """Return how many requests the controller has made, except watches and the renewals of its Lease."""
    rows = world.client.get("/sandbox/requests")["requests"]
    ours = [row for row in rows if row["userAgent"].startswith("gitsync/") and row["verb"] != "watch"]
    return sum(row["count"] for row in ours if not row["resource"].startswith("leases"))


def test_deleting_the_application_deletes_what_it_holds(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: world.get("ConfigMap", "a") is None, 5, world.status)
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 5, world.status)
    until(lambda: world.controller.view.application(f"{NAMESPACE}/shop") is None)


def test_with_pruning_off_the_objects_outlive_the_application(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"prune": False})
    world.start()
    world.synced(commit)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 5, world.status)
    assert world.get("ConfigMap", "a") is not None


def test_a_fight_with_another_controller_is_noticed_and_paused(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    rival = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "9"}}
    give_up = time.monotonic() + 60
    while "another controller" not in world.condition("Ready")["message"] and time.monotonic() < give_up:
        world.client.apply("/api/v1/namespaces/shop/configmaps/a", rival, {"fieldManager": "rival", "force": "true"})
        time.sleep(0.2)
    until(lambda: "another controller" in world.condition("Ready")["message"], 5, world.status)
    assert world.status()["drift"]["correctedTotal"] <= 6


def test_a_new_destination_is_followed_also_with_self_heal_off(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.namespace("mall")
    world.application(sync={"selfHeal": False})
    world.start()
    world.synced(commit)
    world.application(sync={"selfHeal": False}, destination={"namespace": "mall"})
    until(lambda: world.get("ConfigMap", "a", "mall") is not None, 5, world.status)
    until(lambda: world.get("ConfigMap", "a") is None, 5, world.status)


def test_a_change_during_the_first_reconcile_is_not_missed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event arrives after the object was observed, and before the reconcile has ended."""
    commit, seen = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")}), list[str]()
    world.application()
    world.start()
    world.synced(commit)
    world.stop()

    def observed(
        selection: Selection, cluster: Cluster, live: LiveCache, unreadable: Mapping[ObjectRef, str]
    ) -> Observation:
        found = observe(selection, cluster, live, unreadable)
        (ref,) = [ref for ref in found.live if ref.kind == "ConfigMap"]
        if not seen:
            drifted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}
            world.apply({**drifted, "data": {"x": "2"}}, manager="kubectl-edit")
            resource = cluster.resource("", "v1", "ConfigMap")
            assert resource is not None
            until(lambda: (live.get(resource, "shop", "a") or {})["data"] == {"x": "2"})
            seen.append(str(ref))
        return found

    monkeypatch.setattr("gitsync.sync.evaluate.observe", observed)
    world.start()
    until(lambda: bool(seen) and (world.get("ConfigMap", "a") or {})["data"] == {"x": "1"}, 10, world.status)
