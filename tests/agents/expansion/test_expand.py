"""The children of whole Agents equal the manifests in ``cases``; single fields are compared below."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.facts import Facts, MemberChannel
from gitsync.agents.expansion.network import unnamed_hosts
from gitsync.agents.expansion.revisions import revision_of
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.rollout.state import Placement, Track
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all
from tests.agents.factories import agent, changed, example

CASES = Path(__file__).resolve().parent / "cases"
FACTS = Facts(
    prompt="Sort tickets.\n",
    references="4b1d7e90a2c3",
    served=frozenset({"ServiceMonitor"}),
    ports={"researcher": 8080},
    callers=("front-door",),
)


def children(
    manifest: Manifest, facts: Facts = FACTS, track: Track = Track.STABLE, preview: Track | None = None
) -> dict[str, Manifest]:
    """Return the children of an Agent that runs its revision, by kind and name."""
    found = parse_agent({**manifest, "metadata": {**manifest["metadata"], "uid": "0001"}})
    revision = revision_of(found, facts)
    replicas = None if found.spec.autoscaling else found.spec.replicas or 1
    placements = (Placement(track, revision.name, replicas),)
    active = None if track is Track.STABLE else track
    layout = Layout(placements, active, preview, revision.name if preview else "", track)
    made = expand(Sharing.of(found), facts, layout, {revision.name: revision})
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in made}


LEADER = agent(replicas=2, leaderElection={"retryPeriodSeconds": 3})


@pytest.mark.parametrize(("name", "manifest"), [("full", example()), ("minimal", agent()), ("leader", LEADER)])
def test_the_children_equal_the_manifests(name: str, manifest: Manifest) -> None:
    expected = read_all((CASES / f"{name}.yaml").read_text(encoding="utf-8"), name)
    found = children(manifest, replace(FACTS, api_servers=(("10.0.0.1", 6443),)))
    assert found == {f"{one['kind']}/{one['metadata']['name']}": one for one in expected}


def only(kind: str, found: dict[str, Manifest]) -> Manifest:
    (one,) = [manifest for name, manifest in found.items() if name.startswith(f"{kind}/")]
    return one


def pod(found: dict[str, Manifest], kind: str = "Deployment") -> dict[str, Any]:
    spec: dict[str, Any] = only(kind, found)["spec"]["template"]["spec"]
    return spec


def env(found: dict[str, Manifest], kind: str = "Deployment") -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in pod(found, kind)["containers"][0]["env"]}


def revision(found: dict[str, Manifest]) -> str:
    return str(only("ControllerRevision", found)["metadata"]["name"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.model.id", "large"),
        ("spec.prompt", {"text": "Be brief."}),
        ("spec.runtime.image", "helper:2"),
        ("spec.runtime.env", [{"name": "A", "value": "b"}]),
        ("spec.runtime.resources", {"limits": {"memory": "1Gi"}}),
        ("spec.version", "2"),
        ("spec.lifecycle", {"drain": {"timeoutSeconds": 5}}),
    ],
)
def test_what_replaces_pods_is_a_new_revision(path: str, value: Any) -> None:
    assert revision(children(changed(agent(), path, value))) != revision(children(agent()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.replicas", 3),
        ("spec.update", {"type": "Recreate"}),
        ("spec.network", {"policy": "Unmanaged"}),
        ("spec.expose", {"card": {"streaming": True}}),
        ("spec.availability", {"minAvailable": 1}),
        ("spec.owner", "team"),
    ],
)
def test_what_replaces_none_is_the_same_revision(path: str, value: Any) -> None:
    assert revision(children(changed(agent(), path, value))) == revision(children(agent()))


def test_a_rotated_reference_is_another_revision() -> None:
    assert revision(children(agent(), Facts(references="a"))) != revision(children(agent(), Facts(references="b")))


def test_one_replica_has_no_disruption_budget() -> None:
    available = agent(availability={"minAvailable": 1})
    assert "PodDisruptionBudget/helper" not in children(available)
    assert "PodDisruptionBudget/helper" in children(changed(available, "spec.replicas", 2))


def test_keda_scales_to_zero() -> None:
    scaling = {"provider": "KEDA", "minReplicas": 0, "maxReplicas": 3, "metrics": [{"type": "cron"}]}
    spec = children(agent(autoscaling=scaling))["ScaledObject/helper"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["triggers"]) == (0, 3, [{"type": "cron"}])


def test_an_agent_that_is_not_exposed_has_no_service() -> None:
    found = children(agent(expose={"protocol": "None"}))
    assert not {name for name in found if name.startswith("Service/") or name.endswith("-card")}


def test_http_has_a_service_and_no_card() -> None:
    found = children(agent(expose={"protocol": "HTTP"}))
    assert "Service/helper" in found
    assert "ConfigMap/helper-card" not in found
    assert "AGENT_CARD" not in env(found)


@pytest.mark.parametrize(
    ("profile", "pod_level", "container"),
    [
        ("Restricted", {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, True),
        ("Baseline", {"seccompProfile": {"type": "RuntimeDefault"}}, False),
        ("Privileged", None, False),
    ],
)
def test_the_security_profile_sets_what_its_standard_demands(
    profile: str, pod_level: dict[str, Any] | None, container: bool
) -> None:
    found = pod(children(changed(agent(), "spec.runtime.securityContext", {"profile": profile})))
    assert found.get("securityContext") == pod_level
    assert ("securityContext" in found["containers"][0]) is container


def test_old_servers_get_sidecars_as_containers() -> None:
    found = pod(children(example(), Facts(has_native_sidecars=False)), "StatefulSet")
    assert [one["name"] for one in found["containers"]] == ["agent", "pii-filter"]
    assert [one["name"] for one in found["initContainers"]] == ["model-cache", "migrate"]


def test_a_collector_runs_beside_where_the_spec_wants_it() -> None:
    tracing = {"endpoint": "http://otel.observability.svc:4317", "injection": "Sidecar"}
    found = children(agent(observability={"tracing": tracing}))
    assert env(found)["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://localhost:4317"
    assert pod(found)["initContainers"][-1]["name"] == "otel-collector"


def test_a_variable_of_the_user_replaces_ours() -> None:
    found = children(changed(agent(), "spec.runtime.env", [{"name": "LOG_LEVEL", "value": "debug"}]))
    values = [one["value"] for one in pod(found)["containers"][0]["env"] if one["name"] == "LOG_LEVEL"]
    assert values == ["debug"]


def test_a_volume_that_outlives_the_agent_has_no_owner() -> None:
    disk = {"name": "data", "mountPath": "/data", "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    kept = children(agent(state={"volumes": [disk]}))["PersistentVolumeClaim/helper-data"]
    assert "ownerReferences" not in kept["metadata"]
    deleted = children(agent(state={"volumes": [{**disk, "onDelete": "Delete"}]}))
    assert "ownerReferences" in deleted["PersistentVolumeClaim/helper-data"]["metadata"]


def test_a_preview_has_checks_and_no_data() -> None:
    found = children(example(), track=Track.PREVIEW, preview=Track.PREVIEW)
    template = found["Deployment/triage-preview"]["spec"]["template"]
    empty = {one["name"] for one in template["spec"]["volumes"] if "emptyDir" in one}
    assert empty == {"models", "history"}
    assert "agents.gitsync.dev/serving" not in template["metadata"]["labels"]
    job = only("Job", found)["spec"]
    assert [one["name"] for one in job["template"]["spec"]["containers"]] == ["model-answers", "tools-answer"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (3, 300)
    assert found["Service/triage-preview"]["spec"]["selector"]["agents.gitsync.dev/track"] == "preview"


@pytest.mark.parametrize(("track", "name"), [(Track.BLUE, "helper-blue"), (Track.GREEN, "helper-green")])
def test_the_service_selects_the_active_colour(track: Track, name: str) -> None:
    found = children(agent(update={"type": "BlueGreen"}, autoscaling={"maxReplicas": 3}), track=track)
    assert f"Deployment/{name}" in found
    assert found["Service/helper"]["spec"]["selector"]["agents.gitsync.dev/track"] == track.value
    assert found["HorizontalPodAutoscaler/helper"]["spec"]["scaleTargetRef"]["name"] == name


def test_hosts_outside_the_cluster_are_named() -> None:
    assert unnamed_hosts(parse_agent(agent()), Facts()) == ("api.openai.com",)
    local = changed(agent(), "spec.model.endpoint", "http://llm.models.svc:8000/v1")
    assert unnamed_hosts(parse_agent(local), Facts()) == ()


def test_the_policy_uses_the_ports_of_pods() -> None:
    service = {"spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": 8000}]}}
    local = changed(agent(), "spec.model.endpoint", "http://llm.models.svc/v1")
    rules = only("NetworkPolicy", children(local, Facts(services={"models/llm": service})))["spec"]["egress"]
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "models"}}}
    assert rules[1] == {
        "to": [{**peer, "podSelector": {"matchLabels": {"app": "llm"}}}],
        "ports": [{"protocol": "TCP", "port": 8000}],
    }


def test_channels_open_both_ends_and_name_their_broker() -> None:
    broker = MemberChannel("events", broker="nats://nats.messaging.svc:4222")
    facts = Facts(channels=(MemberChannel("ask", senders=("a",), receivers=("b",)), broker), topology="desk-topology")
    found = children(agent(), facts)
    policy = only("NetworkPolicy", found)["spec"]
    assert {"podSelector": {"matchLabels": {"agents.gitsync.dev/agent": "a"}}} in policy["ingress"][0]["from"]
    assert policy["egress"][1]["ports"] == [{"protocol": "TCP", "port": 4222}]
    assert policy["egress"][2]["to"] == [{"podSelector": {"matchLabels": {"agents.gitsync.dev/agent": "b"}}}]
    assert env(found)["CHANNEL_EVENTS_BROKER"] == "nats://nats.messaging.svc:4222"
    assert env(found)["AGENT_TOPOLOGY"] == "/etc/agent/topology/topology.json"


def test_a_canary_of_a_stateful_agent_moves_the_partition() -> None:
    found = parse_agent({**example(), "metadata": {**example()["metadata"], "uid": "0001"}})
    made = revision_of(found, FACTS)
    layout = Layout((Placement(Track.STABLE, made.name, 3, partition=2),))
    (workload,) = [
        one for one in expand(Sharing.of(found), FACTS, layout, {made.name: made}) if one["kind"] == "StatefulSet"
    ]
    assert workload["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 2}


def test_a_route_divides_the_requests_of_a_gateway_or_of_a_mesh() -> None:
    canary = {"steps": [{"weight": 10}], "traffic": "GatewayAPI"}
    found = children(agent(update={"type": "Canary", "canary": canary}))
    service = {"group": "", "kind": "Service", "port": 8080}
    spec = found["HTTPRoute/helper"]["spec"]
    assert spec["parentRefs"] == [{**service, "name": "helper"}]
    assert spec["rules"][0]["backendRefs"] == [
        {**service, "name": "helper", "weight": 100},
        {**service, "name": "helper-canary", "weight": 0},
    ]
    assert found["Service/helper-canary"]["spec"]["selector"]["agents.gitsync.dev/track"] == "canary"
    gateway = {"name": "edge", "namespace": "ingress", "sectionName": "https", "hostnames": ["a.example.com"]}
    spec = children(agent(update={"type": "Canary", "canary": {**canary, "gateway": gateway}}))["HTTPRoute/helper"][
        "spec"
    ]
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}
    assert spec["parentRefs"] == [{**parent, "namespace": "ingress", "sectionName": "https"}]
    assert spec["hostnames"] == ["a.example.com"]


def test_a_preview_takes_no_part_in_an_election() -> None:
    user = {"name": "AGENT_LEASE_NOTE", "value": "mine"}
    given = changed(changed(agent(), "spec.leaderElection", {}), "spec.runtime.env", [user])
    assert {name for name in env(children(given)) if name.startswith("AGENT_LEASE")} == {
        "AGENT_LEASE",
        "AGENT_LEASE_DURATION_SECONDS",
        "AGENT_LEASE_RENEW_DEADLINE_SECONDS",
        "AGENT_LEASE_RETRY_PERIOD_SECONDS",
        "AGENT_LEASE_NOTE",
    }
    assert [name for name in env(children(given, track=Track.PREVIEW)) if name.startswith("AGENT_LEASE")] == [
        "AGENT_LEASE_NOTE"
    ]


def test_an_api_server_of_unknown_address_is_a_host_to_allow() -> None:
    elected = changed(changed(agent(), "spec.leaderElection", {}), "spec.model.endpoint", "http://llm.shop.svc/v1")
    assert unnamed_hosts(parse_agent(elected), Facts()) == ("kubernetes.default.svc",)
    assert unnamed_hosts(parse_agent(elected), Facts(api_servers=(("10.0.0.1", 6443),))) == ()
