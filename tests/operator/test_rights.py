"""The operator with the rights of its installation alone."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from gitsync.cli.main import app
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all
from tests.agents.factories import agent, changed, example
from tests.flow.environment import NAMESPACE, World
from tests.operator.agent_world import config_map, running, status_of
from tests.waiting import until

RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def act_as_installed(world: World) -> None:
    """Create the rights of an installation with the operator, and let controllers of this world sign in with them."""
    printed = CliRunner().invoke(app, ["install", "--component", "agents"]).stdout
    tenant = CliRunner().invoke(app, ["install", "--tenant", "shop"]).stdout
    manifests: list[Manifest] = [*read_all(tenant, "tenant.yaml"), *read_all(printed, "install.yaml")]
    account: dict[str, Any] = {}
    for manifest in manifests:
        if manifest["kind"] in RIGHTS:
            made = world.apply(manifest)
            is_own = made["kind"] == "ServiceAccount" and made["metadata"]["namespace"] == NAMESPACE
            account = made if is_own else account
    path = f"/api/v1/namespaces/{account['metadata']['namespace']}/serviceaccounts/{account['metadata']['name']}/token"
    token = world.client.send("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    world.kubeconfig.write_text(world.kubeconfig.read_text().replace(world.sandbox.token, token))


def test_the_installed_rights_are_enough_for_every_child(world: World) -> None:
    act_as_installed(world)
    world.start(controller_rights=False)
    # what the revision before needs stays as long as its Pods may take to end: 10 seconds more than the drain
    lifecycle = {"drain": {"timeoutSeconds": 1}}
    world.apply(agent("leader", leaderElection={}, lifecycle=lifecycle))
    running(world, "leader")
    world.apply(config_map("triage-prompt", **{"system.md": "Sort tickets."}))
    full = changed(changed(example(), "metadata.namespace", "shop"), "spec.lifecycle.validate", None)
    world.apply(changed(full, "spec.update", {"type": "RollingUpdate"}))
    wanted = {"Lease", "Role", "RoleBinding", "Deployment", "StatefulSet", "NetworkPolicy"}

    def kinds() -> set[str]:
        statuses = [status_of(world, name) for name in ("leader", "triage")]
        return {child["kind"] for status in statuses for child in status.get("children") or ()}

    until(lambda: kinds() >= wanted, describe=kinds)
    stalled = [
        one
        for name in ("leader", "triage")
        for one in status_of(world, name)["conditions"]
        if (one["type"], one["status"]) == ("Stalled", "True")
    ]
    assert stalled == []
    world.apply(agent("leader", lifecycle=lifecycle))
    until(lambda: world.get("Lease", "leader-leader", api="coordination.k8s.io/v1") is None, 30)
    until(lambda: world.get("Role", "leader-leader", api="rbac.authorization.k8s.io/v1") is None)


def test_a_namespace_without_an_account_runs_no_agent(world: World) -> None:
    act_as_installed(world)
    world.namespace("bank")
    world.start(controller_rights=False)
    world.apply(agent("helper", namespace="bank"))
    until(lambda: stalled(world, "helper", "bank"), 20, lambda: status_of(world, "helper", namespace="bank"))
    assert 'cannot impersonate resource "serviceaccounts"' in stalled(world, "helper", "bank")
    assert world.get("Deployment", "helper", "bank", api="apps/v1") is None


def test_without_a_default_account_the_status_says_what_is_missing(world: World) -> None:
    world.start(controller_rights=False, default_service_account="")
    world.apply(agent("helper"))
    until(lambda: stalled(world, "helper"), 20, lambda: status_of(world, "helper"))
    assert "no ServiceAccount writes for shop/agent:helper" in stalled(world, "helper")
    assert world.get("Deployment", "helper", api="apps/v1") is None


def stalled(world: World, name: str, namespace: str = "shop") -> str:
    conditions = status_of(world, name, namespace=namespace).get("conditions", [])
    return next((one["message"] for one in conditions if (one["type"], one["status"]) == ("Stalled", "True")), "")
