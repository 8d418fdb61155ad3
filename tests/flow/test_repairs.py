"""What others change is restored at once, whatever a commit waits for, and no commit waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.objects.change import Risk
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.record import Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.render.yaml.reader import read_all
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import despite_conflicts, until

MODEL = "http://model/v1"
EVIL = "http://evil/v1"


def agent(endpoint: str = MODEL, replicas: int = 2) -> str:
    return f"""apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: web}}
  template:
    metadata:
      labels: {{app: web}}
    spec:
      containers:
        - name: web
          image: web:1
          env:
            - {{name: MODEL_ENDPOINT, value: "{endpoint}"}}
          securityContext: {{allowPrivilegeEscalation: false}}
"""


SERVICE = """apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80}
    - {name: https, port: 443}
"""


def opened(world: World, sync: dict[str, Any] | None = None, **spec: Any) -> str:
    """Sync a Deployment and a Service with the default settings, and return the commit."""
    first = world.repo.commit("open", {"shop/web.yaml": agent(), "shop/service.yaml": SERVICE})
    world.application(sync=sync or {}, **spec)
    world.start()
    world.synced(first)
    return first


def live(world: World, kind: str = "Deployment", api: str = "apps/v1") -> Manifest:
    found = world.get(kind, "web", api=api)
    assert found is not None
    return found


def container(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def endpoint(world: World) -> str:
    return str(container(live(world))["env"][0]["value"])


def edit(world: World, manager: str = "kubectl-edit", **changes: Any) -> None:
    """Edit the Deployment as ``kubectl edit`` does: read it, change it, and write the whole of it."""
    despite_conflicts(lambda: _edit(world, manager, **changes))


def _edit(world: World, manager: str, **changes: Any) -> None:
    manifest = live(world)
    if "replicas" in changes:
        manifest["spec"]["replicas"] = changes["replicas"]
    if "endpoint" in changes:
        container(manifest)["env"][0]["value"] = changes["endpoint"]
    if "image" in changes:
        container(manifest)["image"] = changes["image"]
    if "add" in changes:
        container(manifest)["env"].append(changes["add"])
    if changes.get("privileged"):
        container(manifest)["securityContext"] = {"privileged": True, "allowPrivilegeEscalation": True}
    world.cluster.replace(manifest, manager=manager)


def repairs(world: World) -> list[SyncRecord]:
    """Return the records of repairs."""
    return [record for record in world.controller.records.history("gitsync/shop", limit=9) if record.trigger == "drift"]


def write_status_first(world: World, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have the Deployment controller write a status just before ``times`` writes to one version of it by gitsync."""
    numbers = iter(range(times))

    def racing(write: Callable[..., Any]) -> Callable[..., Any]:
        def race(*args: Any, **options: Any) -> Any:
            number = next(numbers, None)
            if number is not None:
                status = {**live(world), "status": {"observedGeneration": number + 1}}
                world.cluster.replace(status, manager="kube-controller-manager", subresource="status")
            return write(*args, **options)

        return race

    for method in ("set_managed_fields", "remove_fields"):
        monkeypatch.setattr(KubernetesCluster, method, racing(getattr(KubernetesCluster, method)))


def audited(world: World) -> set[Outcome]:
    return {record.outcome for record in world.controller.records.audit_records("gitsync/shop", limit=50)}


def test_a_hijacked_endpoint_is_restored_without_an_approval(world: World) -> None:
    opened(world)
    edit(world, "kubectl-set", endpoint=EVIL)
    until(lambda: endpoint(world) == MODEL, 15, lambda: world.status())
    (record,) = until(lambda: repairs(world))
    (step,) = record.steps
    assert step.reason.startswith("restores what was applied: .spec.template.spec.containers")
    assert "another service" not in step.reason
    assert record.approver == ""


def test_a_dangerous_edit_holds_no_commit_back(world: World) -> None:
    opened(world, {"selfHeal": False})
    edit(world, endpoint=EVIL)
    until(lambda: world.status()["phase"] == "Drifted", 15, world.status)
    second = world.repo.commit("scale", {"shop/web.yaml": agent(replicas=3)})
    until(lambda: world.status()["revision"].get("applied") == second, 15, world.status)
    assert live(world)["spec"]["replicas"] == 3


def test_an_edit_is_restored_while_a_commit_waits_for_approval(world: World) -> None:
    opened(world)
    world.repo.commit("another model", {"shop/web.yaml": agent("http://new/v1")})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 15, world.status)
    plan = world.view().plan
    edit(world, "kubectl-scale", replicas=7)
    until(lambda: live(world)["spec"]["replicas"] == 2, 15, world.status)
    assert endpoint(world) == MODEL
    assert plan is not None
    world.quiet()
    world.in_phase("AwaitingApproval")
    after = world.view().plan
    assert after is not None
    assert (after.digest, after.risk) == (plan.digest, Risk.DANGEROUS)


def test_an_edit_to_the_value_of_a_held_commit_is_undone(world: World) -> None:
    opened(world)
    world.repo.commit("another model", {"shop/web.yaml": agent(EVIL)})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 15, world.status)
    edit(world, endpoint=EVIL)
    until(lambda: endpoint(world) == MODEL, 15, world.status)
    world.in_phase("AwaitingApproval")


DENY = {"kind": "Deny", "schedule": "* * * * *", "duration": "1h"}


@pytest.mark.parametrize("sync", [{"automated": False}, {"windows": [DENY]}], ids=["by hand", "a closed window"])
def test_an_edit_is_restored_though_commits_wait(world: World, sync: dict[str, Any]) -> None:
    opened(world)
    world.application(sync=sync)
    until(lambda: (world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1") or {})["spec"]["sync"])
    world.repo.commit("scale", {"shop/web.yaml": agent(replicas=3)})
    until(lambda: world.status()["phase"] == "Pending", 15, world.status)
    edit(world, replicas=7)
    until(lambda: live(world)["spec"]["replicas"] == 2, 15, world.status)


def test_a_window_may_stop_self_heal_too(world: World) -> None:
    opened(world, {"selfHeal": {"enabled": True, "duringWindows": False}})
    sync = {"selfHeal": {"enabled": True, "duringWindows": False}, "windows": [DENY]}
    world.application(sync=sync)
    until(lambda: world.view().application and world.view().application.sync.windows)  # type: ignore[union-attr]
    edit(world, replicas=7)
    until(lambda: world.status()["phase"] == "Drifted", 15, world.status)
    assert live(world)["spec"]["replicas"] == 7
    assert "stops self-heal too" in world.condition("Ready")["message"]


def test_one_apply_restores_a_renumbered_port(world: World) -> None:
    opened(world)
    service = live(world, "Service", "v1")
    service["spec"]["ports"][0]["port"] = 8080
    world.cluster.replace(service, manager="kubectl-patch")
    until(
        lambda: [port["port"] for port in live(world, "Service", "v1")["spec"]["ports"]] == [80, 443],
        15,
        lambda: (world.status(), live(world, "Service", "v1")),
    )
    world.synced(world.status()["revision"]["applied"])


def test_a_privileged_container_is_restored(world: World) -> None:
    opened(world)
    edit(world, privileged=True)
    until(lambda: "privileged" not in container(live(world))["securityContext"], 15, world.status)


def test_a_variable_that_a_user_added_is_removed(world: World) -> None:
    opened(world)
    edit(world, "kubectl-set", add={"name": "MODEL_ID", "value": "rogue"})
    until(lambda: len(container(live(world))["env"]) == 1, 15, world.status)


def test_a_repair_that_meets_a_status_write_is_planned_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(world)
    write_status_first(world, monkeypatch, times=2)
    edit(world, "kubectl-set", add={"name": "MODEL_ID", "value": "rogue"})
    until(lambda: len(container(live(world))["env"]) == 1, 15, world.status)
    until(lambda: repairs(world))
    assert {record.outcome for record in repairs(world)} == {Outcome.SUCCEEDED}
    assert Outcome.FAILED in audited(world)  # each attempt is in the audit


def test_a_sync_that_meets_a_status_write_is_planned_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What kubectl has created is taken over by its version, so that the removed field of it goes too."""
    first = world.repo.commit("open", {"shop/web.yaml": agent()})
    (manifest,) = read_all(agent(replicas=5))
    world.cluster.create({**manifest, "metadata": {"name": "web", "namespace": "shop"}}, manager="kubectl-create")
    write_status_first(world, monkeypatch, times=2)
    world.application()
    world.start()
    world.synced(first)
    assert live(world)["spec"]["replicas"] == 2
    records = world.controller.records.history("gitsync/shop", limit=9)
    assert {record.outcome for record in records} == {Outcome.SUCCEEDED}
    assert Outcome.FAILED in audited(world)


def test_a_repair_that_always_conflicts_has_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(world)
    write_status_first(world, monkeypatch, times=1000)
    edit(world, "kubectl-set", add={"name": "MODEL_ID", "value": "rogue"})
    until(lambda: world.condition("Ready").get("reason") == "RepairFailed", 30, world.status)


def test_a_repair_that_fails_holds_back_no_other_and_no_commit(world: World) -> None:
    world.repo.commit("settings", {"shop/settings.yaml": config_map("settings", x="1")})
    opened(world)
    settings = world.get("ConfigMap", "settings") or {}
    world.cluster.replace({**settings, "data": {"x": "2"}, "immutable": True}, manager="kubectl-edit")
    until(lambda: world.condition("Ready").get("reason") == "RepairFailed", 15, world.status)
    until(lambda: "ConfigMap shop/settings" in str(world.status().get("problems")), describe=world.status)
    edit(world, replicas=7)
    until(lambda: live(world)["spec"]["replicas"] == 2, 15, world.status)
    second = world.repo.commit("scale", {"shop/web.yaml": agent(replicas=3)})
    until(lambda: world.status()["revision"].get("applied") == second, 15, world.status)
    assert live(world)["spec"]["replicas"] == 3


def test_after_a_restart_an_edit_is_still_told_from_a_commit(world: World) -> None:
    opened(world)
    world.repo.commit("another model", {"shop/web.yaml": agent("http://new/v1")})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 15, world.status)
    world.stop()
    edit(world, replicas=7)
    world.start()
    until(lambda: live(world)["spec"]["replicas"] == 2, 20, world.status)
    assert endpoint(world) == MODEL


def test_a_deleted_object_comes_back_while_a_commit_waits(world: World) -> None:
    opened(world)
    world.repo.commit("another model", {"shop/web.yaml": agent("http://new/v1")})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 15, world.status)
    uid = uid_of(live(world))
    world.cluster.delete(ObjectRef("apps", "Deployment", "shop", "web"), "v1", uid=uid)
    until(lambda: uid_of(world.get("Deployment", "web", api="apps/v1") or {}) not in ("", uid), 20, world.status)
    assert endpoint(world) == MODEL


def suspend(world: World, value: bool) -> None:
    world.application(suspend=value)
    phase = "Suspended" if value else "Synced"
    until(lambda: world.status().get("phase") == phase, 15, world.status)


def test_a_suspended_application_is_observed_and_left_alone(world: World) -> None:
    opened(world)
    suspend(world, True)
    edit(world, replicas=7)
    until(lambda: (world.status().get("drift") or {}).get("objects") == 1, 15, world.status)
    status = world.status()
    assert (status["phase"], status["sync"]) == ("Suspended", "OutOfSync")
    assert "1 object differs from Git: Deployment shop/web" in world.condition("Ready")["message"]
    assert live(world)["spec"]["replicas"] == 7


def test_a_suspended_application_shows_commits_and_health(world: World) -> None:
    opened(world)
    suspend(world, True)
    second = world.repo.commit("scale", {"shop/web.yaml": agent(replicas=3)})
    until(lambda: world.status()["revision"].get("fetched") == second, 15, world.status)
    edit(world, image="web:crash")
    until(lambda: world.status().get("health") == "Degraded", 30, world.status)
    assert world.status()["sync"] == "OutOfSync"
    plan = world.view().plan
    assert plan is not None
    assert [str(step.ref) for step in plan.writes] == ["Deployment shop/web"]
    assert live(world)["spec"]["replicas"] == 2


def test_after_resuming_the_edit_is_restored_and_the_commit_applied(world: World) -> None:
    opened(world)
    suspend(world, True)
    second = world.repo.commit("scale", {"shop/web.yaml": agent(replicas=3)})
    edit(world, endpoint=EVIL)
    until(lambda: (world.status().get("drift") or {}).get("objects") == 1, 15, world.status)
    suspend(world, False)
    world.synced(second, timeout=20)
    assert (endpoint(world), live(world)["spec"]["replicas"]) == (MODEL, 3)
