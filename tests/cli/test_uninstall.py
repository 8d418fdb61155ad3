"""``gitsync uninstall`` leaves nothing of gitsync and every workload, whether its controller runs or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.cli.commands.install import CLUSTER_WIDE, rendered
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent
from tests.cli.conftest import Done, Gitsync
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

AGENTS = "agents.gitsync.dev/v1alpha1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An installation with all components and a tenant, an Application in sync, and an Agent that runs."""
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        install(made, {"components": [f"../gitsync/components/{name.value}" for name in CLUSTER_WIDE]})
        install(made, {"resources": ["../gitsync/tenant"], "namespace": "shop"})
        commit = made.repo.commit("shop", {"shop/web.yaml": deployment("web"), "shop/a.yaml": config_map("a", x="1")})
        made.application()
        made.start()
        made.synced(commit)
        until(lambda: made.status()["health"] == "Healthy", describe=made.status)  # so that all of its Pods exist
        made.apply(agent(replicas=1))
        until(lambda: (made.get("Agent", "helper", api=AGENTS) or {}).get("status", {}).get("phase") == "Running", 30)
        yield made
        made.close()


def install(world: World, overlay: dict[str, Any]) -> None:
    for manifest in rendered({"resources": ["../gitsync"], **overlay}):
        if manifest["kind"].startswith("ValidatingAdmissionPolicy"):
            # Kustomize takes it for a namespaced kind; kubectl drops that as well
            del manifest["metadata"]["namespace"]
        try:
            world.cluster.apply(manifest, manager="kubectl")
        except InvalidInput:
            assert manifest["kind"] in ("PodMonitor", "PrometheusRule")  # kinds that the sandbox does not serve
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gitsync-webhook"
    if "namespace" not in overlay:  # its Pods run nothing in the sandbox, and would block every write
        world.client.send("DELETE", path, {})


def workloads(world: World) -> dict[str, str]:
    """Return the uids of what users run, Pods included."""
    kinds = (("apps", "deployments"), ("", "pods"), ("", "services"), ("", "configmaps"))
    found = {}
    for group, plural in kinds:
        root = f"/apis/{group}/v1" if group else "/api/v1"
        for item in world.client.get(f"{root}/namespaces/shop/{plural}")["items"]:
            found[f"{plural}/{item['metadata']['name']}"] = item["metadata"]["uid"]
    return found


def remains(world: World) -> list[str]:
    """Return the names of all objects of gitsync in the cluster."""
    found = []
    for path in (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/api/v1/namespaces",
        "/api/v1/serviceaccounts",
    ):
        found += [item["metadata"]["name"] for item in world.client.get(path)["items"]]
    return [name for name in found if "gitsync" in name]


def uninstall(world: World, gitsync: Gitsync, *options: str) -> Done:
    return gitsync("uninstall", "--kubeconfig", world.kubeconfig, "--data", world.folder / "none", *options)


@pytest.mark.parametrize("controller", ["runs", "stopped"])
def test_workloads_stay_and_nothing_else(world: World, gitsync: Gitsync, controller: str) -> None:
    if controller == "stopped":
        world.stop()
    before = workloads(world)
    assert {name.partition("/")[0] for name in before} >= {"deployments", "pods", "services", "configmaps"}
    done = uninstall(world, gitsync, "--yes", "--timeout", "120")
    assert done.code == 0, done.err
    assert remains(world) == []
    world.sandbox.advance(120)
    assert workloads(world) == before
    live = world.get("Deployment", "helper", api="apps/v1")
    assert live is not None
    assert "ownerReferences" not in metadata_of(live)
    assert "nothing of gitsync" in uninstall(world, gitsync).out


def test_the_plan_names_what_stays_and_changes_nothing(world: World, gitsync: Gitsync) -> None:
    before = remains(world)
    done = uninstall(world, gitsync, "-o", "json")
    assert done.code == 1
    actions = {row["object"]: row["action"] for row in done.json}
    assert actions["2 objects of Application gitsync/shop"] == "keep"
    assert actions["Namespace gitsync"] == "delete"
    assert actions["ClusterRoleBinding gitsync-cluster-admin"] == "delete"
    assert actions["RoleBinding shop/gitsync-tenant"] == "delete"
    assert actions["ServiceAccount shop/gitsync-deployer"] == "delete"
    assert remains(world) == before


def test_a_namespace_with_other_workloads_stays(world: World, gitsync: Gitsync) -> None:
    other: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "other", "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "main", "image": "example.com/other:1"}]},
            },
        },
    }
    uid = metadata_of(world.apply(other))["uid"]
    done = uninstall(world, gitsync, "--yes", "--timeout", "120")
    assert done.code == 0, done.err
    live = world.get("Deployment", "other", NAMESPACE, "apps/v1")
    assert live is not None
    assert metadata_of(live)["uid"] == uid
    assert remains(world) == ["gitsync"], ref_of(live)


def test_workloads_are_deleted_on_request_by_the_controller(world: World, gitsync: Gitsync) -> None:
    done = uninstall(world, gitsync, "--yes", "--delete-workloads", "--timeout", "120")
    assert done.code == 0, done.err
    assert remains(world) == []
    until(lambda: not [name for name in workloads(world) if "kube-root-ca" not in name], 20, lambda: workloads(world))


def test_without_a_controller_it_says_what_blocks(world: World, gitsync: Gitsync) -> None:
    world.stop()
    done = uninstall(world, gitsync, "--yes", "--delete-workloads", "--timeout", "1")
    assert done.code == 3
    assert "Application gitsync/shop" in done.err
    assert "is it running?" in done.err
