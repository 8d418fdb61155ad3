"""Benchmarks run against the cluster that KUBECONFIG names, where that is allowed, and leave nothing there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.sandbox.server import Sandbox
from tests.allowed_cluster import LABEL
from tests.flow.environment import World
from tests.waiting import until

ROOT = Path(__file__).parents[1]
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[World]:
    """A sandbox that plays the cluster of others, without the namespace and definitions of gitsync."""
    with Sandbox(workloads=False) as sandbox:
        made = World(tmp_path, sandbox)
        for path in ("/api/v1/namespaces/gitsync", *(f"{DEFINITIONS}/{name}" for name in contents(made, DEFINITIONS))):
            made.client.send("DELETE", path, {})
        until(lambda: not contents(made, DEFINITIONS) and "gitsync" not in contents(made, NAMESPACES))
        yield made
        made.close()


def allow(world: World) -> None:
    metadata = {"name": "default", "labels": {LABEL: "allowed"}}
    world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def contents(world: World, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in world.client.get(path)["items"]}


def bench(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
def test_a_benchmark_counts_the_requests_of_the_controller_and_cleans_up(cluster: World) -> None:
    allow(cluster)
    before = contents(cluster, NAMESPACES), contents(cluster, DEFINITIONS)
    done = bench(cluster, "bench.many", "3")
    assert done.returncode == 0, done.stderr
    first, *_, restart = done.stdout.splitlines()
    assert re.search(r"3 Applications, first sync: [0-9.]+ x raw; .*API server not measured", first), first
    assert " apply configmaps 12 " in first
    assert " update applications.gitsync.dev/status 6 " in first
    assert "apply configmaps" not in restart, restart
    assert (contents(cluster, NAMESPACES), contents(cluster, DEFINITIONS)) == before


def test_a_cluster_that_is_not_labelled_is_refused_untouched(cluster: World) -> None:
    before = contents(cluster, NAMESPACES)
    done = bench(cluster, "bench.shared_base", "2")
    assert done.returncode != 0
    assert f"kubectl label namespace default {LABEL}=allowed" in done.stderr
    assert contents(cluster, NAMESPACES) == before


def test_a_namespace_of_others_is_neither_used_nor_deleted(cluster: World) -> None:
    allow(cluster)
    cluster.namespace("big")
    done = bench(cluster, "bench.big", "5")
    assert done.returncode != 0
    assert "namespace big exists in the cluster" in done.stderr
    assert "big" in contents(cluster, NAMESPACES)
    assert "gitsync" not in contents(cluster, NAMESPACES)
