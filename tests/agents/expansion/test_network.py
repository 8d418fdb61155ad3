"""Which hosts of an Agent may be Services of the cluster, and so are followed; what all policies deny together."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import (
    Endpoint,
    denied_by,
    denied_check,
    named_services,
    network_policy,
    required_services,
    unnamed_hosts,
)
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.objects.manifest import Manifest
from tests.agents.factories import agent


@pytest.mark.parametrize(
    ("host", "services", "unnamed"),
    [
        ("model", {("shop", "model")}, ()),
        ("example.com", set(), ("example.com",)),
        ("model.team.svc", {("team", "model")}, ()),
        ("model.team.svc.cluster.local", {("team", "model")}, ()),
        ("api.openai.com", set(), ("api.openai.com",)),
        ("a.b.c.example.com", set(), ("a.b.c.example.com",)),
        ("svc.example.svc.com", set(), ("svc.example.svc.com",)),
        ("10.0.0.7", set(), ()),
        ("[fd00::7]", set(), ()),
    ],
)
def test_only_hosts_inside_the_cluster_are_services(
    host: str, services: set[tuple[str, str]], unnamed: tuple[str, ...]
) -> None:
    manifest = agent(model={"provider": "OpenAICompatible", "id": "m", "endpoint": f"http://{host}:8000/v1"})
    parsed = parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "1"}})
    assert named_services(parsed, Facts()) == services
    assert unnamed_hosts(parsed, Facts()) == unnamed


@pytest.mark.parametrize(
    ("host", "services"),
    [
        ("model", {("shop", "model")}),
        ("model.team.svc", {("team", "model")}),
        ("model.team.svc.cluster.local", {("team", "model")}),
        # It may be a host of the network outside.
        ("model.corp", set()),
        ("api.openai.com", set()),
        ("localhost", set()),
        ("10.0.0.7", set()),
        ("[fd00::7]", set()),
    ],
)
def test_services_that_have_to_exist_are_named(host: str, services: set[tuple[str, str]]) -> None:
    manifest = agent(model={"provider": "OpenAICompatible", "id": "m", "endpoint": f"http://{host}:8000/v1"})
    parsed = parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "1"}})
    assert required_services(parsed, Facts()) == services


FRONT, BACK = Endpoint("shop", {"app": "front"}, 8080), Endpoint("shop", {"app": "back"}, 6379)
FAR = Endpoint("other", {"app": "front"}, 8080)
TO_BACK: dict[str, Any] = {"podSelector": {"matchLabels": {"app": "back"}}}
ONLY_FRONT = {"from": [{"podSelector": {"matchLabels": {"app": "front"}}}]}


def policy(namespace: str = "shop", **spec: Any) -> Manifest:
    metadata = {"name": "p", "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("sender", "applied", "denied"),
    [
        (FRONT, None, ""),
        (FRONT, policy(podSelector={}), "ingress of p"),
        (FRONT, policy(podSelector={}, ingress=[{}]), ""),
        (FRONT, policy(podSelector={}, policyTypes=["Egress"]), "egress of p"),
        (FRONT, policy(podSelector={}, egress=[{}]), "ingress of p"),
        (FRONT, policy("elsewhere", podSelector={}), ""),
        (FRONT, policy(podSelector={"matchLabels": {"app": "x"}}), ""),
        (FRONT, policy(**TO_BACK, ingress=[ONLY_FRONT]), ""),
        (FAR, policy(**TO_BACK, ingress=[ONLY_FRONT]), "ingress of p"),
        (FAR, policy(**TO_BACK, ingress=[{"from": [{"namespaceSelector": {}}]}]), ""),
        (
            FAR,
            policy(
                **TO_BACK,
                ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}]}],
            ),
            "",
        ),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6379}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6000, "endPort": 7000}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 80}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"protocol": "UDP"}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]), "ingress of p"),
    ],
)
def test_policies_deny_what_no_rule_allows(sender: Endpoint, applied: Manifest | None, denied: str) -> None:
    assert denied_by(sender, BACK, [applied] if applied else []) == denied


def checks_denied(*policies: Manifest, **spec: Any) -> str:
    return denied_check(parse_agent(agent(**spec)), policies)


def test_a_policy_that_denies_checks_is_named_with_what_to_allow() -> None:
    everything = policy(podSelector={}, policyTypes=["Ingress", "Egress"])
    known = {"image": "registry.internal/agents/helper:1.0", "port": 9090}
    assert checks_denied(everything, runtime=known) == (
        "the egress of p denies the requests of the check: allow Pods with the label agents.gitsync.dev/check=helper"
        " DNS and port 9090 of the agent"
    )
    of_checks = {"podSelector": {"matchLabels": {"agents.gitsync.dev/check": "helper"}}}
    to_agents = {"to": [{"podSelector": {"matchLabels": {"agents.gitsync.dev/agent": "helper"}}}]}
    allowed = policy(**of_checks, policyTypes=["Egress"], egress=[to_agents])
    # What arrives at the Agent is allowed by its own policy.
    own = children_of_policy(parse_agent(agent(runtime=known)))
    assert checks_denied(everything, allowed, *own, runtime=known) == ""
    assert checks_denied(everything, allowed, runtime=known).startswith("the ingress of p denies")
    assert checks_denied(*own, runtime=known) == ""


def children_of_policy(of: Agent) -> list[Manifest]:
    return network_policy(Sharing.of(of), Facts())
