"""Children that revisions share give each of them what it needs, until its last Pod is gone."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import agents_of, revision_of
from gitsync.agents.expansion.sharing import Sharing, needed_objects, with_live_needs
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.rollout.state import Placement, Track
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from tests.agents.factories import agent

TOOL = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080, "path": "/mcp"}}}
VOLUME = {"name": "tmp", "mountPath": "/tmpd", "size": "1Gi", "onDelete": "Delete"}
DISK = {"state": {"volumes": [VOLUME]}, "update": {"type": "Recreate"}}
OTHER_MODEL = {"provider": "OpenAICompatible", "id": "m", "endpoint": "http://other:9000"}
METRICS = {"observability": {"metrics": {"port": 9100}}}
OWN_ACCOUNT = {"image": "registry.internal/agents/helper:1.0"}
OTHER_ACCOUNT = {**OWN_ACCOUNT, "serviceAccount": {"create": False, "name": "other"}}


def parsed(**spec: Any) -> Agent:
    manifest = agent(**spec)
    return parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "0001"}})


def children(old: Agent, new: Agent, *, serves: Agent, others: bool = True) -> dict[str, Manifest]:
    """Return the children while Pods of both run, or of the serving one alone, by kind and name."""
    revisions = {one.name: one for one in (revision_of(old, Facts()), revision_of(new, Facts()))}
    current = revision_of(serves, Facts()).name
    by_name = {revision_of(old, Facts()).name: old, revision_of(new, Facts()).name: new}
    used = by_name if others else {current: serves}
    layout = Layout((Placement(Track.STABLE, current, 1),))
    made = expand(Sharing(serves, new, used), Facts(), layout, revisions)
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in made if one["kind"] != "ControllerRevision"}


def needs(manifests: dict[str, Manifest]) -> dict[str, Any]:
    """Return what Pods may do with children: rules and ports as sets, and which objects exist."""
    policy = manifests.get("NetworkPolicy/helper", {}).get("spec", {})
    return {
        "ingress": [str(rule) for rule in policy.get("ingress", [])],
        "egress": [str(rule) for rule in policy.get("egress", [])],
        "ports": [(port["port"], port["targetPort"]) for port in manifests["Service/helper"]["spec"]["ports"]],
        "objects": [name for name in manifests if not name.startswith("ConfigMap/helper-config")],
    }


CHANGES = [
    pytest.param({"tools": [TOOL]}, {}, id="a tool is removed"),
    pytest.param(
        {}, {"model": {"provider": "OpenAICompatible", "id": "m", "endpoint": "http://other:9000"}}, id="model"
    ),
    pytest.param({"runtime": {**OWN_ACCOUNT, "port": 8080}}, {"runtime": {**OWN_ACCOUNT, "port": 9090}}, id="port"),
    pytest.param(METRICS, {}, id="metrics are removed"),
    pytest.param(DISK, {"update": {"type": "Recreate"}}, id="a volume is removed"),
    pytest.param({"runtime": OWN_ACCOUNT}, {"runtime": OTHER_ACCOUNT}, id="another ServiceAccount"),
    pytest.param({"leaderElection": {}}, {}, id="no leader any more"),
    pytest.param({"expose": {"protocol": "A2A"}}, {"expose": {"protocol": "HTTP"}}, id="no card any more"),
    pytest.param({"expose": {"protocol": "A2A"}}, {"expose": {"protocol": "None"}}, id="no Service any more"),
    pytest.param({"network": {"policy": "Unmanaged"}}, {}, id="the network is restricted"),
    pytest.param({"network": {"egressTo": [{"cidr": "10.0.0.0/8"}]}}, {}, id="an address is removed"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_nothing_of_either_revision_is_missing(before: dict[str, Any], after: dict[str, Any]) -> None:
    old, new = parsed(**before), parsed(**after)
    both = children(old, new, serves=old)
    for only in (children(old, old, serves=old), children(new, new, serves=new)):
        if "Service/helper" not in only:
            continue
        for name, wanted in needs(only).items():
            assert set(wanted) <= set(needs(both)[name]) or "{}" in needs(both)[name]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_after_a_rollback_the_children_are_as_before(before: dict[str, Any], after: dict[str, Any]) -> None:
    old, new = parsed(**before), parsed(**after)
    configs = {f"ConfigMap/{name}" for name in (config_of(old), config_of(new))}
    returned = children(old, new, serves=old, others=False)
    assert {name: one for name, one in returned.items() if name not in configs} == {
        name: one for name, one in children(old, old, serves=old).items() if name not in configs
    }


def config_of(agent: Agent) -> str:
    return str(revision_of(agent, Facts()).template["spec"]["volumes"][0]["configMap"]["name"])


def test_the_serving_revision_keeps_the_names_of_its_ports() -> None:
    old, new = parsed(runtime={**OWN_ACCOUNT, "port": 8080}), parsed(runtime={**OWN_ACCOUNT, "port": 9090})
    ports = children(old, new, serves=old)["Service/helper"]["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("http", 8080), ("http-9090", 9090)]
    ports = children(old, new, serves=new)["Service/helper"]["spec"]["ports"]
    assert [(port["name"], port["port"]) for port in ports] == [("http", 9090), ("http-8080", 8080)]


def test_a_revision_of_unknown_spec_keeps_what_is_live() -> None:
    old, new = parsed(tools=[TOOL], **DISK), parsed(update={"type": "Recreate"})
    live = {ref_of(one): one for one in children(old, old, serves=old).values()}
    wanted = {ref_of(one): one for one in children(new, new, serves=new).values()}
    policy = ObjectRef("networking.k8s.io", "NetworkPolicy", "shop", "helper")
    widened = with_live_needs(wanted, live)
    assert all(rule in widened[policy]["spec"]["egress"] for rule in live[policy]["spec"]["egress"])
    assert ObjectRef("", "PersistentVolumeClaim", "shop", "helper-tmp") in needed_objects(wanted, live)


def test_a_kept_revision_knows_its_spec_but_not_the_prompt() -> None:
    old = parsed(tools=[TOOL], prompt={"text": "a secret plan"})
    revision = revision_of(old, Facts())
    assert "secret plan" not in str(revision.spec)
    (kept,) = agents_of(old, [revision]).values()
    assert kept.spec.tools == old.spec.tools
