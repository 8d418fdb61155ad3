"""Which hosts of an Agent may be Services of the cluster, and so are followed."""

from __future__ import annotations

import pytest

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import named_services, required_services, unnamed_hosts
from gitsync.agents.model.agent import parse_agent
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
