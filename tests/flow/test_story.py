"""The story of a day: commits good and bad, an edit by hand, reverts, a crashing image; real git, HTTP and kubectl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.waiting import until, until_quiet

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

KUSTOMIZATION = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: shop
resources:
  - web.yaml
{more}
configMapGenerator:
  - name: prompt
    literals: [text=hello]
"""


def kubectl(world: World, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(world.kubeconfig), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def image(world: World) -> str:
    return kubectl(world, "get", "deploy", "web", "-n", "shop", "-o", "jsonpath={..containers[0].image}")


def replicas(world: World) -> str:
    return kubectl(world, "get", "deploy", "web", "-n", "shop", "-o", "jsonpath={.spec.replicas}")


def test_a_day_with_gitsync(world: World) -> None:
    repo = world.repo
    first = repo.commit(
        "the shop opens", {"shop/kustomization.yaml": KUSTOMIZATION.format(more=""), "shop/web.yaml": deployment("web")}
    )
    world.application()
    world.start()
    world.synced(first)
    until(lambda: world.status()["health"] == "Healthy", 10, world.status)

    # A commit changes an image; the cluster follows (bench/latency.py measures how soon).
    second = repo.commit("a newer web", {"shop/web.yaml": deployment("web", image="web:2")})
    until(lambda: image(world) == "web:2", 5)
    world.synced(second)
    until(lambda: world.status()["health"] == "Healthy", 10, world.status)

    # A user edits by hand: drift is reported with field, manager and time, and corrected.
    kubectl(world, "edit", "deploy", "web", "-n", "shop", KUBE_EDITOR="sed -i 's/replicas: 2/replicas: 4/'")
    until(lambda: world.get("Deployment", "web", api="apps/v1")["spec"]["replicas"] == 2, 3)  # type: ignore[index]
    assert replicas(world) == "2"
    drift = until(lambda: [event for event in world.controller.view.events() if event.kind == "drift"])[-1]
    assert re.search(r"kubectl-edit \(Update\) set \.spec\.replicas to 4 at .* UTC; Git declares 2", drift.message)
    until(lambda: world.status().get("drift", {}).get("correctedTotal") == 1)

    # A commit adds an object; git revert takes it away again.
    extra = KUSTOMIZATION.format(more="  - extra.yaml")
    third = repo.commit("more", {"shop/kustomization.yaml": extra, "shop/extra.yaml": config_map("extra", a="1")})
    world.synced(third)
    assert "extra" in kubectl(world, "get", "cm", "-n", "shop", "-o", "name")
    fourth = repo.revert()
    world.synced(fourth)
    assert "extra" not in kubectl(world, "get", "cm", "-n", "shop", "-o", "name")

    # Broken YAML, then an unknown field: the cluster is left alone, and file and line are said.
    until_quiet(lambda: world.get("Deployment", "web", api="apps/v1"))  # its Pods follow the last replicas
    before = kubectl(world, "get", "deploy,cm", "-n", "shop", "-o", "jsonpath={..metadata.resourceVersion}")
    repo.commit("broken", {"shop/web.yaml": deployment("web", image="web:3") + "  oops: [\n"})
    until(lambda: world.condition("Rendered").get("status") == "False", 5, world.status)
    assert "shop/web.yaml:" in world.condition("Rendered")["message"]
    repo.commit("unknown", {"shop/web.yaml": deployment("web", image="web:3").replace("image:", "imagge:")})
    until(lambda: "imagge" in world.condition("Rendered").get("message", ""), 5, world.status)
    assert "shop/web.yaml:17" in world.condition("Rendered")["message"]
    assert kubectl(world, "get", "deploy,cm", "-n", "shop", "-o", "jsonpath={..metadata.resourceVersion}") == before

    # An image that crashes: Degraded, with the pod's reason.
    fifth = repo.commit("crash", {"shop/web.yaml": deployment("web", image="web:crash")})
    world.synced(fifth)
    until(lambda: "CrashLoopBackOff" in world.condition("Ready").get("message", ""), 20, world.status)
    until(lambda: world.status()["health"] == "Degraded", 20, world.status)
    assert "Degraded" in kubectl(world, "get", "gapp", "-n", NAMESPACE)

    # And back, by one more revert.
    sixth = repo.revert()
    assert sixth != fifth
    until(lambda: world.condition("Rendered").get("status") == "False", 5, world.status)  # what was before the crash
    seventh = repo.commit("well again", {"shop/web.yaml": deployment("web", image="web:2")})
    world.synced(seventh)
    until(lambda: world.status()["health"] == "Healthy", 15, world.status)
    assert world.controller.records.verify() == ()
    assert world.controller.records.unresolved() == ()
