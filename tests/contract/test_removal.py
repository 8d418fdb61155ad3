"""Removing parts of gitsync from a cluster leaves what users run, with the rights that the manifests install."""

from __future__ import annotations

from functools import partial

import pytest

from gitsync.objects.manifest import metadata_of
from tests.agents.factories import agent, member, system
from tests.contract.installed import DEPLOYER, controller, install, tenant_of
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import AGENTS, Stage, eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = ("CustomResourceDefinition", "apiextensions.k8s.io/v1")
MANY = tuple("abcdefghijkl")
"""More ConfigMaps than ``maxDeletes``: their deletion would wait for an approval, and block the definition."""


def with_workloads(stage: Stage) -> str:
    """Let an Application sync a Deployment and ``MANY`` ConfigMaps; return the uid of the Deployment."""
    manifests = [deployment("web", replicas=1), *(config_map(name, x="1") for name in MANY)]
    commit = stage.commit({"all.yaml": manifests})
    stage.application(**DEPLOYER)
    stage.synced(commit)
    return str(metadata_of(stage.live("Deployment", "web", api="apps/v1"))["uid"])


def untouched(stage: Stage, uid: str) -> bool:
    """Whether the workloads are as they were, and none is being deleted."""
    web = metadata_of(stage.live("Deployment", "web", api="apps/v1"))
    return web["uid"] == uid and "deletionTimestamp" not in web and all(stage.get("ConfigMap", name) for name in MANY)


def is_absent(stage: Stage, definition: str) -> bool:
    kind, api = CRD
    return stage.get(kind, definition, namespace="", api=api) is None


@pytest.mark.own_rights
def test_what_is_synced_stays_when_the_definition_is_deleted_while_the_controller_runs(stage: Stage) -> None:
    install(stage)
    with controller(stage):
        uid = with_workloads(stage)
        stage.client.send("DELETE", f"{DEFINITIONS}/applications.gitsync.dev", {})
        eventually(stage, partial(is_absent, stage, "applications.gitsync.dev"))
        assert untouched(stage, uid)


@pytest.mark.own_rights
def test_what_is_synced_stays_when_the_namespace_of_the_controller_is_deleted(stage: Stage) -> None:
    install(stage)
    with controller(stage):
        uid = with_workloads(stage)
        stage.client.send("DELETE", f"/api/v1/namespaces/{stage.system}", {})
        # its account goes with the namespace, so that its last requests are refused
        eventually(stage, lambda: stage.get("ServiceAccount", "gitsync", namespace=stage.system) is None)
    assert untouched(stage, uid)


@pytest.mark.own_rights
@pytest.mark.parametrize("definition", ["agents", "multiagentsystems"])
def test_what_agents_run_stays_when_a_definition_is_deleted(stage: Stage, definition: str) -> None:
    """With one system, its definition and its namespace were once Terminating for ever."""
    install(stage, "agents")
    for manifest in tenant_of(stage, stage.namespace):
        stage.apply(manifest, "kubectl")
    with controller(stage):
        stage.apply(agent(namespace=stage.namespace, replicas=1))
        stage.apply(system(member("a"), namespace=stage.namespace))

        def uids() -> dict[str, str]:
            running = {name: stage.get("Deployment", name, api="apps/v1") for name in ("helper", "desk-a")}
            return {name: str(metadata_of(live)["uid"]) for name, live in running.items() if live is not None}

        eventually(stage, lambda: len(uids()) == 2)
        before = uids()
        stage.client.send("DELETE", f"{DEFINITIONS}/{definition}.agents.gitsync.dev", {})
        eventually(stage, partial(is_absent, stage, f"{definition}.agents.gitsync.dev"))
        assert uids() == before
        owners = metadata_of(stage.live("Deployment", "helper", api="apps/v1")).get("ownerReferences")
        assert bool(owners) is (definition != "agents")
        if definition == "agents":
            assert is_absent(stage, "agents.agents.gitsync.dev")
            return
        # of a member without its system an Agent is left, which runs on
        assert stage.get("Agent", "desk-a", api=AGENTS) is not None
