"""``gitsync verify-install`` compares what is installed, its rights and its image with what this version ships."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cli.commands.install import installation, rendered, without_wrong_namespace
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import Done, Gitsync
from tests.flow.environment import World

DIGEST = "sha256:" + "a" * 64
IMAGE = f"registry.example.com/gitsync:1.0.0@{DIGEST}"
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An installation without its Pods, with a tenant."""
    with Sandbox(workloads=False) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        tenant = rendered({"resources": ["../gitsync/tenant"], "namespace": "shop"})
        for manifest in [*installation(IMAGE, ()), *tenant]:
            made.cluster.apply(without_wrong_namespace(manifest), manager="kubectl")
        yield made
        made.close()


def verify(world: World, gitsync: Gitsync, image: str = IMAGE, *options: str) -> Done:
    place = ("--kubeconfig", world.kubeconfig, "--data", world.folder / "none")
    return gitsync("verify-install", "--image", image, "-o", "json", *options, *place)


def differing(done: Done) -> dict[str, str]:
    return {row["check"]: row["detail"] for row in done.json if row["result"] == "Missing"}


def edit(world: World, kind: str, name: str, api: str, **members: object) -> None:
    live = world.get(kind, name, "gitsync" if kind == "Deployment" else "", api=api)
    assert live is not None
    world.cluster.replace({**live, **members}, manager="someone")


def pod(deployment: Manifest | None) -> Manifest:
    """Return a Pod of the controller, as its Deployment makes it."""
    assert deployment is not None
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": "gitsync-0", "namespace": "gitsync"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def test_what_was_installed_is_as_shipped(world: World, gitsync: Gitsync) -> None:
    done = verify(world, gitsync)
    assert (done.code, differing(done)) == (0, {})
    assert len(done.json) == len(installation(IMAGE, ()))


def test_a_role_with_one_verb_more_is_named(world: World, gitsync: Gitsync) -> None:
    live = world.get("ClusterRole", "gitsync", "", api=RBAC)
    assert live is not None
    edit(world, "ClusterRole", "gitsync", RBAC, rules=[*live["rules"], {**live["rules"][0], "verbs": ["delete"]}])
    rules = [{**live["rules"][0], "verbs": live["rules"][0]["verbs"][1:]}, *live["rules"][1:]]
    done = verify(world, gitsync)
    assert (done.code, list(differing(done).values())) == (1, ["differs in .rules"])
    edit(world, "ClusterRole", "gitsync", RBAC, rules=rules)
    assert "differs in .rules[0].verbs" in str(differing(verify(world, gitsync)))


def test_another_role_of_the_controller_is_named(world: World, gitsync: Gitsync) -> None:
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "gitsync", "namespace": "gitsync"}],
    }
    world.apply(binding)
    done = verify(world, gitsync)
    assert list(differing(done).values()) == ["gives gitsync the ClusterRole cluster-admin, which is not shipped"]


def test_another_image_is_named_where_it_is_declared_and_where_it_runs(world: World, gitsync: Gitsync) -> None:
    other = IMAGE.replace("a" * 64, "b" * 64)
    assert list(differing(verify(world, gitsync, other)).values()) == [
        "differs in .spec.template.spec.containers[0].image"
    ]
    world.apply(pod(world.get("Deployment", "gitsync", "gitsync", api="apps/v1")))
    live = world.get("Pod", "gitsync-0", "gitsync")
    assert live is not None
    status = {"containerStatuses": [{"name": "controller", "imageID": f"registry.example.com/gitsync@{DIGEST}"}]}
    world.cluster.replace({**live, "status": status}, manager="kubelet", subresource="status")
    assert differing(verify(world, gitsync)) == {}
    assert f"not {other.partition('@')[2]}" in str(differing(verify(world, gitsync, other)))


def test_what_is_missing_is_named(world: World, gitsync: Gitsync) -> None:
    assert "is not installed" in str(differing(verify(world, gitsync, IMAGE, "--component", "read-secrets")))
