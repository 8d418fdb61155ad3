"""How an Agent is reached and scaled: Services, ServiceAccount, autoscalers, disruption budget, scrape objects."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.expansion.volumes import is_stateful
from gitsync.agents.expansion.workloads import track_selector, workload_kind
from gitsync.agents.keys import AGENT_LABEL, SERVING_LABEL, child, compact
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.state import Track
from gitsync.objects.manifest import Manifest

_CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def service_account(agent: Agent) -> list[Manifest]:
    """Return the ServiceAccount, where the spec wants one."""
    account = agent.spec.runtime.service_account
    if not account.create:
        return []
    manifest = child(agent, "v1", "ServiceAccount", agent.name, automountServiceAccountToken=account.automount_token)
    if account.annotations:
        manifest["metadata"]["annotations"] = dict(account.annotations)
    return [manifest]


def services(sharing: Sharing, active: Track | None, preview: Track | None) -> list[Manifest]:
    """Return the Services: of the serving Pods, of a preview, and of the names of StatefulSet Pods."""
    agent = sharing.serving
    manifests = []
    # Of any revision in use: the Service has to stay until the last Pods that serve are gone.
    if any(revision.spec.expose.protocol != "None" for revision in sharing.all):
        # A Service selects by labels alone, so switching the track switches all requests at once.
        selector = track_selector(agent, active) if active else {AGENT_LABEL: agent.name, SERVING_LABEL: "true"}
        manifests.append(_service(agent, agent.name, selector, _all_ports(sharing)))
    if any(is_routed(revision) for revision in sharing.all):
        selector = track_selector(agent, Track.CANARY)
        manifests.append(_service(sharing.target, _canary_name(agent), selector, _ports(sharing.target)))
    if preview is not None:
        selector = track_selector(agent, preview)
        manifests.append(_service(sharing.target, f"{agent.name}-preview", selector, _ports(sharing.target)))
    if any(is_stateful(revision) for revision in sharing.all):
        headless = _service(agent, f"{agent.name}-peers", {AGENT_LABEL: agent.name}, _all_ports(sharing))
        # Peers find each other before they are ready, as StatefulSet documentation advises for quorums.
        headless["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
        manifests.append(headless)
    return manifests


def is_routed(agent: Agent) -> bool:
    """Whether a route divides the requests between the serving Pods and those of a canary."""
    canary = agent.spec.update.canary
    return canary is not None and canary.traffic == "GatewayAPI"


def traffic_route(sharing: Sharing, weight: int) -> list[Manifest]:
    """
    Return the HTTPRoute that gives this percentage of the requests to the canary.

    Its lists are atomic, so defaults of the API are written out. Without a Gateway its parent is the Service of the
    Agent: a service mesh then divides the requests to it. Source: Gateway API 1.4, HTTPRoute and "GAMMA".
    """
    agent = sharing.target
    canary = agent.spec.update.canary
    if canary is None or not is_routed(agent):
        return []
    serving_port = sharing.serving.spec.runtime.port
    gateway = canary.gateway
    parent: dict[str, Any] = {"group": "", "kind": "Service", "name": agent.name, "port": serving_port}
    if gateway is not None:
        names = {"name": gateway.name, "namespace": gateway.namespace, "sectionName": gateway.section_name}
        parent = compact({"group": "gateway.networking.k8s.io", "kind": "Gateway", **names})
    backends = [
        (agent.name, serving_port, 100 - weight),
        (_canary_name(agent), agent.spec.runtime.port, weight),
    ]
    references = [
        {"group": "", "kind": "Service", "name": name, "port": port, "weight": share} for name, port, share in backends
    ]
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": references}
    hostnames = list(gateway.hostnames) if gateway else []
    spec = compact({"parentRefs": [parent], "hostnames": hostnames, "rules": [rule]})
    return [child(agent, "gateway.networking.k8s.io/v1", "HTTPRoute", agent.name, spec=spec)]


def autoscaler(agent: Agent, target: Track) -> list[Manifest]:
    """Return the autoscaler of the serving workload; a suspended Agent has none."""
    scaling = agent.spec.autoscaling
    if scaling is None or agent.spec.suspend:
        return []
    reference = {"apiVersion": "apps/v1", "kind": workload_kind(agent), "name": target.workload(agent.name)}
    if scaling.provider == "KEDA":
        return [child(agent, "keda.sh/v1alpha1", "ScaledObject", agent.name, spec=_keda(agent, reference))]
    spec = compact(
        {
            "scaleTargetRef": reference,
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": list(scaling.metrics) or [_CPU],
            "behavior": scaling.behavior,
        }
    )
    return [child(agent, "autoscaling/v2", "HorizontalPodAutoscaler", agent.name, spec=spec)]


def disruption_budget(agent: Agent) -> list[Manifest]:
    """Return the PodDisruptionBudget; one replica has none, since it would block the drain of a node for ever."""
    wanted = agent.spec.availability
    scaling = agent.spec.autoscaling
    # An absent number means 1, as by the default of the API server.
    fewest = scaling.min_replicas if scaling else agent.spec.replicas or 1
    # The fewest replicas count: an autoscaler may go down to one while the budget stays.
    if wanted is None or fewest < 2 or agent.spec.suspend:
        return []
    spec = {
        "minAvailable": wanted.min_available,
        "selector": {"matchLabels": {AGENT_LABEL: agent.name, SERVING_LABEL: "true"}},
    }
    return [child(agent, "policy/v1", "PodDisruptionBudget", agent.name, spec=spec)]


def service_monitor(agent: Agent, facts: Facts) -> list[Manifest]:
    """Return the ServiceMonitor, where the spec wants one and the kind is served."""
    metrics = agent.spec.observability.metrics
    if metrics is None or metrics.service_monitor == "Never" or agent.spec.expose.protocol == "None":
        return []
    # Applying an unknown kind would fail each plan of the Agent.
    if metrics.service_monitor == "Auto" and "ServiceMonitor" not in facts.served:
        return []
    spec = {
        "selector": {"matchLabels": {AGENT_LABEL: agent.name}},
        "endpoints": [{"port": _metrics_port(agent), "path": metrics.path}],
    }
    return [child(agent, "monitoring.coreos.com/v1", "ServiceMonitor", agent.name, spec=spec)]


def _canary_name(agent: Agent) -> str:
    return f"{agent.name}-canary"


def _service(agent: Agent, name: str, selector: dict[str, str], ports: list[dict[str, Any]]) -> Manifest:
    return child(agent, "v1", "Service", name, spec={"selector": selector, "ports": ports})


def _ports(agent: Agent) -> list[dict[str, Any]]:
    port = agent.spec.runtime.port
    metrics = agent.spec.observability.metrics
    ports: list[dict[str, Any]] = [{"name": "http", "port": port, "targetPort": "http", "protocol": "TCP"}]
    if metrics is not None and metrics.port != port:
        ports.append({"name": "metrics", "port": metrics.port, "targetPort": "metrics", "protocol": "TCP"})
    return ports


def _all_ports(sharing: Sharing) -> list[dict[str, Any]]:
    """Return the ports of all revisions in use; those of the serving one keep their names."""
    ports: dict[int, dict[str, Any]] = {}
    names = set()
    for agent in sharing.all:
        for port in _ports(agent):
            if port["port"] in ports:
                continue
            # By its target's name each Pod is reached at its own port, whichever of the two was called.
            name = f"{port['name']}-{port['port']}" if port["name"] in names else port["name"]
            names.add(name)
            ports[port["port"]] = {**port, "name": name}
    return list(ports.values())


def _metrics_port(agent: Agent) -> str:
    metrics = agent.spec.observability.metrics
    return "metrics" if metrics is not None and metrics.port != agent.spec.runtime.port else "http"


def _keda(agent: Agent, reference: dict[str, str]) -> dict[str, Any]:
    scaling = agent.spec.autoscaling
    if scaling is None:
        return {}
    triggers = list(scaling.metrics) or [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "80"}}]
    behavior = {"horizontalPodAutoscalerConfig": {"behavior": scaling.behavior}} if scaling.behavior else None
    return compact(
        {
            "scaleTargetRef": reference,
            "maxReplicaCount": scaling.max_replicas,
            "triggers": triggers,
            "advanced": behavior,
        }
        # Outside compact: 0 replicas are a value that KEDA understands.
    ) | {"minReplicaCount": scaling.min_replicas}
