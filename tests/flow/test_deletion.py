"""Hooks of the deletion run before and after everything is deleted, as Argo CD's and Helm's do."""

from __future__ import annotations

from contextlib import suppress

from gitsync.errors import Conflict
from tests.flow.environment import NAMESPACE, World, completed
from tests.flow.factories import config_map, job
from tests.waiting import until

PATH = f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop"


def delete(world: World) -> None:
    world.client.send("DELETE", PATH, {})


def is_gone(world: World) -> bool:
    return world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None


def finalizers(world: World) -> list[str]:
    found = world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1")
    return (found or {}).get("metadata", {}).get("finalizers") or []


def does_without(world: World, finalizer: str) -> bool:
    """Take a finalizer off, as a person does with ``kubectl edit``."""
    found = world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1")
    assert found is not None
    left = [item for item in found["metadata"]["finalizers"] if item != finalizer]
    with suppress(Conflict):
        world.cluster.replace({**found, "metadata": {**found["metadata"], "finalizers": left}}, manager="ada")
        return True
    return False


def uid(world: World, name: str) -> str:
    found = until(lambda: world.get("Job", name, api="batch/v1"), 20, world.status)
    return str(found["metadata"]["uid"])


def done(world: World) -> list[tuple[str, str]]:
    """Return what was done, oldest first, as the audit says."""
    records = world.controller.records.audit_records(f"{NAMESPACE}/shop", outcome="Succeeded")
    return [(record.action, record.resource.rpartition("/")[2]) for record in reversed(records)]


def test_hooks_run_before_and_after_everything_is_deleted(world: World) -> None:
    before = job("before", "PreDelete").replace("gitsync.dev/hook", "argocd.argoproj.io/hook")
    after = job("after", "post-delete", policy="hook-succeeded").replace("gitsync.dev/", "helm.sh/")
    commit = world.repo.commit(
        "hooks",
        {
            "shop/a.yaml": config_map("a", x="1"),
            "shop/before.yaml": before,
            "shop/after.yaml": after,
            "shop/left.yaml": job("left", "PostDelete"),
        },
    )
    world.application()
    world.start()
    world.synced(commit)
    until(lambda: finalizers(world) == ["gitsync.dev/pre-delete", "gitsync.dev/finalizer", "gitsync.dev/post-delete"])
    assert world.get("Job", "before", api="batch/v1") is None
    reasons = {resource.ref.name: resource.change.reason for resource in world.view().resources}
    assert reasons["before"] == "PreDelete hook: runs when the Application is deleted"
    delete(world)
    until(lambda: is_gone(world), 30, world.status)
    assert done(world) == [
        ("create", "a"),
        ("hook", "before"),
        ("prune", "before"),
        ("prune", "a"),
        ("hook", "after"),
        ("hook", "left"),
        ("prune", "after"),
    ]
    assert completed(world, "left"), "no controller is left to delete it, and no policy requires it"
    triggers = [record.trigger for record in world.controller.records.history(f"{NAMESPACE}/shop")]
    assert triggers == ["PostDelete", "delete", "PreDelete", "commit"]


def test_a_hook_that_fails_holds_the_deletion_up_until_somebody_does_without_it(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/a.yaml": config_map("a", x="1"),
            "shop/before.yaml": job("before", "PreDelete", image="tool:crash"),
        },
    )
    world.application(sync={"retry": {"backoff": {"initial": "1s", "max": "1s"}}})
    world.start()
    world.synced(commit)
    delete(world)
    first = uid(world, "before")
    until(lambda: world.status().get("phase") == "Failed", 20, world.status)
    until(lambda: "before" in world.condition("Ready")["message"], 20, world.status)
    until(lambda: uid(world, "before") != first, 20, world.status)  # it is tried again
    assert world.get("ConfigMap", "a") is not None
    until(lambda: does_without(world, "gitsync.dev/pre-delete"))
    until(lambda: is_gone(world), 20, world.status)
    assert world.get("ConfigMap", "a") is None
    assert world.get("Job", "before", api="batch/v1") is None


def test_a_deletion_goes_on_after_a_restart_without_git_and_runs_no_hook_twice(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/a.yaml": config_map("a", x="1"),
            "shop/before.yaml": job("before", "PreDelete"),
            "shop/after.yaml": job("after", "PostDelete"),
        },
    )
    world.application()
    world.start()
    world.synced(commit)
    until(lambda: len(finalizers(world)) == 3)
    world.sandbox.set_speed(0.05)  # a hook takes a while
    delete(world)
    uid(world, "before")
    until(lambda: world.status().get("operation", {}).get("hooks"), 10, world.status)
    world.stop()
    world.repo.bare.rename(world.repo.bare.with_name("away.git"))
    world.start()
    until(lambda: world.condition("Reconciling").get("message", "").startswith("waits for hook"), 10, world.status)
    world.sandbox.set_speed(20)
    until(lambda: is_gone(world), 30, world.status)
    assert [step for step in done(world) if step[0] == "hook"] == [("hook", "before"), ("hook", "after")]


def test_a_hook_whose_namespace_is_being_deleted_holds_nothing_up(world: World) -> None:
    commit = world.repo.commit(
        "hooks", {"shop/a.yaml": config_map("a", x="1"), "shop/before.yaml": job("before", "PreDelete")}
    )
    world.application()
    world.start()
    world.synced(commit)
    until(lambda: "gitsync.dev/pre-delete" in finalizers(world))
    held = {"name": "held", "namespace": "shop", "finalizers": ["example.com/held"]}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    world.client.send("DELETE", "/api/v1/namespaces/shop", {})
    delete(world)
    until(lambda: is_gone(world), 20, world.status)
    record = next(r for r in world.controller.records.history(f"{NAMESPACE}/shop") if r.trigger == "PreDelete")
    assert [step.outcome.value for step in record.steps] == ["Refused"]
    assert "is being terminated" in record.steps[0].message


def test_with_pruning_off_nothing_is_deleted_and_no_hook_runs(world: World) -> None:
    commit = world.repo.commit(
        "hooks", {"shop/a.yaml": config_map("a", x="1"), "shop/before.yaml": job("before", "PreDelete")}
    )
    world.application(sync={"prune": False})
    world.start()
    world.synced(commit)
    assert finalizers(world) == []
    reasons = {resource.ref.name: resource.change.reason for resource in world.view().resources}
    assert "does not run, since sync.prune is off" in reasons["before"]
    delete(world)
    until(lambda: is_gone(world), 10, world.status)
    assert world.get("ConfigMap", "a") is not None
    assert world.get("Job", "before", api="batch/v1") is None


def test_pruning_turned_off_while_the_controller_is_down_deletes_nothing(world: World) -> None:
    commit = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    assert finalizers(world) == ["gitsync.dev/finalizer"]
    world.stop()
    world.application(sync={"prune": False})
    delete(world)
    assert not is_gone(world)
    world.start()
    until(lambda: is_gone(world), 10, world.status)
    assert world.get("ConfigMap", "a") is not None


def test_finalizers_follow_what_git_declares(world: World) -> None:
    first = world.repo.commit("plain", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    assert finalizers(world) == ["gitsync.dev/finalizer"]
    second = world.repo.commit("hook", {"shop/after.yaml": job("after", "PostDelete")})
    world.synced(second)
    until(lambda: finalizers(world) == ["gitsync.dev/finalizer", "gitsync.dev/post-delete"])
    third = world.repo.commit("none", {"shop/after.yaml": None})
    world.synced(third)
    until(lambda: finalizers(world) == ["gitsync.dev/finalizer"])


def test_a_sync_that_waits_ends_when_its_application_is_deleted(world: World) -> None:
    world.repo.commit(
        "slow", {"shop/a.yaml": config_map("a", x="1"), "shop/slow.yaml": job("slow", "PostSync", image="tool:slow")}
    )
    world.application()
    world.sandbox.set_speed(0.05)
    world.start()
    uid(world, "slow")
    delete(world)
    world.sandbox.set_speed(20)
    until(lambda: is_gone(world), 20, world.status)
    assert world.get("Job", "slow", api="batch/v1") is None
    assert world.get("ConfigMap", "a") is None


def test_what_outlives_its_application_does_not_hold_the_deletion_up(world: World) -> None:
    kept = config_map("kept", x="1").replace(
        "metadata:\n", "metadata:\n  annotations: {argocd.argoproj.io/sync-options: Delete=false}\n"
    )
    commit = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1"), "shop/kept.yaml": kept})
    world.application()
    world.start()
    world.synced(commit)
    delete(world)
    until(lambda: is_gone(world), 20, world.status)
    assert world.get("ConfigMap", "a") is None
    assert world.get("ConfigMap", "kept") is not None


def test_preserved_objects_stay_and_are_pruned_before(world: World) -> None:
    both = {"shop/a.yaml": config_map("a", x="1"), "shop/b.yaml": config_map("b", x="1")}
    commit = world.repo.commit("two", both)
    world.application(sync={"preserveResourcesOnDeletion": True})
    world.start()
    world.synced(commit)
    world.synced(world.repo.commit("one", {"shop/b.yaml": None}))
    assert world.get("ConfigMap", "b") is None
    delete(world)
    until(lambda: is_gone(world))
    assert world.get("ConfigMap", "a") is not None
