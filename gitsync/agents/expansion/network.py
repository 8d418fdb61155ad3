"""The NetworkPolicy of an Agent, which denies what the spec does not name, and what all policies deny together."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gitsync.agents.expansion.config import tool_url
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.expansion.variables import databases
from gitsync.agents.keys import AGENT_LABEL, CHECK_LABEL, child
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.network import EgressPeer, IngressPeer
from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ref_of

_PROVIDERS = {
    "OpenAI": "api.openai.com",
    "Anthropic": "api.anthropic.com",
    "AzureOpenAI": "openai.azure.com",
    "Bedrock": "amazonaws.com",
    "VertexAI": "aiplatform.googleapis.com",
}
# defaults of the protocols, where a URL has none
_PORTS = {"http": 80, "https": 443, "nats": 4222, "redis": 6379, "kafka": 9092, "amqp": 5672}
# DNS is open to all namespaces: its Pods have other labels in each distribution, and NodeLocal DNSCache none.
_DNS = {
    "to": [{"namespaceSelector": {}}],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}

_EVERYTHING: dict[str, Any] = {}
"""The rule of a revision whose network is not restricted; without peers and ports a rule allows all."""

API_SERVER = "kubernetes.default.svc"
"""The Service of the API server, which has no Pods that a NetworkPolicy could select."""
Rule = dict[str, Any]


def network_policy(sharing: Sharing, facts: Facts) -> list[Manifest]:
    """
    Return the NetworkPolicy, unless all specs leave the network to others.

    It selects the Pods of all revisions, so it allows what any of them needs.
    """
    agents = sharing.all
    if all(agent.spec.network.policy != "Managed" for agent in agents):
        return []
    spec = {
        "podSelector": {"matchLabels": {AGENT_LABEL: sharing.serving.name}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": _unique(rule for agent in agents for rule in _ingress(agent, facts)),
        "egress": _unique(rule for agent in agents for rule in (_DNS, *_egress(agent, facts))),
    }
    return [child(sharing.serving, "networking.k8s.io/v1", "NetworkPolicy", sharing.serving.name, spec=spec)]


def unnamed_hosts(agent: Agent, facts: Facts) -> tuple[str, ...]:
    """Return the hosts outside the cluster that the Agent uses: a NetworkPolicy cannot name them."""
    # Port 0: the rule is not used, only whether there can be one.
    hosts = {host for host, _ in _targets(agent, facts) if host and not _peer(host, 0, agent, facts)}
    if agent.spec.leader_election is not None and not facts.api_servers:
        hosts.add(API_SERVER)
    return tuple(sorted(hosts))


def named_services(agent: Agent, facts: Facts) -> frozenset[tuple[str, str]]:
    """Return namespace and name of what may be Services that the Agent uses."""
    services = (_service_of(host, agent) for host, _ in _targets(agent, facts))
    return frozenset((namespace, name) for namespace, name in services if name)


def required_services(agent: Agent, facts: Facts) -> frozenset[tuple[str, str]]:
    """Return namespace and name of what can only be Services, so that one which does not exist is an error."""
    # A collector beside the agent is reached by this name.
    return named_services(agent, facts) - {(agent.namespace, "localhost")}


def _ingress(agent: Agent, facts: Facts) -> Iterator[Rule]:
    if agent.spec.network.policy != "Managed":
        yield _EVERYTHING
        return
    port = [{"protocol": "TCP", "port": agent.spec.runtime.port}]
    senders = sorted({*facts.callers, *(name for channel in facts.channels for name in channel.senders)})
    # Checks run in Pods of their own, which the Agent's labels do not select.
    own = [{"podSelector": {"matchLabels": {CHECK_LABEL: agent.name}}}]
    yield {"from": own + [{"podSelector": {"matchLabels": {AGENT_LABEL: name}}} for name in senders], "ports": port}
    for peer in agent.spec.network.ingress_from:
        yield {"from": [_selected(peer)], "ports": port}
    metrics = agent.spec.observability.metrics
    if metrics is not None:
        # Prometheus is in a namespace that the Agent does not know.
        yield {"from": [{"namespaceSelector": {}}], "ports": [{"protocol": "TCP", "port": metrics.port}]}


def _egress(agent: Agent, facts: Facts) -> Iterator[Rule]:
    if agent.spec.network.policy != "Managed":
        yield _EVERYTHING
        return
    if agent.spec.leader_election is not None:
        # The Service of the API server has no selector: a policy can only name the addresses behind it.
        yield from (_peer(address, port, agent, facts) for address, port in facts.api_servers)
    for host, port in _targets(agent, facts):
        rule = _peer(host, port, agent, facts)
        if rule:
            yield rule
    for tool in agent.spec.tools:
        if tool.agent_ref is not None:
            yield _to_agent(tool.agent_ref.name, facts)
    for channel in facts.channels:
        yield from (_to_agent(name, facts) for name in channel.receivers)
    for peer in agent.spec.network.egress_to:
        ports = [{"protocol": "TCP", "port": port} for port in peer.ports]
        yield {"to": [_selected(peer)], **({"ports": ports} if ports else {})}


def _targets(agent: Agent, facts: Facts) -> Iterator[tuple[str, int]]:
    """Yield host and port of everything that the spec names and that is not another Agent."""
    model = agent.spec.model
    tracing = agent.spec.observability.tracing
    for service in (model, *model.fallbacks):
        yield _address(service.endpoint) if service.endpoint else (_PROVIDERS[service.provider], 443)
    if model.cache is not None:
        yield _address(model.cache.source)
    yield from (_address(tool_url(agent, tool, facts)) for tool in agent.spec.tools if tool.agent_ref is None)
    yield from ((database.host, database.port) for database in databases(agent))
    if tracing is not None:
        yield _address(tracing.endpoint)
    yield from (_address(channel.broker) for channel in facts.channels if channel.broker)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443)


def _to_agent(name: str, facts: Facts) -> Rule:
    # The port of an Agent that does not exist yet; the rule follows when it does.
    port = facts.ports.get(name, 8080)
    return {
        "to": [{"podSelector": {"matchLabels": {AGENT_LABEL: name}}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def _peer(host: str, port: int, agent: Agent, facts: Facts) -> Rule:
    """Return the rule for one address, empty for a host outside the cluster."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _to_service(host, port, agent, facts)
    return {
        # The whole length of the prefix: exactly this address.
        "to": [{"ipBlock": {"cidr": f"{address}/{address.max_prefixlen}"}}],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def _service_of(host: str, agent: Agent) -> tuple[str, str]:
    """Return namespace and name of the Service that a host name may be, the name empty for one outside the cluster."""
    name, _, rest = host.partition(".")
    namespace, _, domain = rest.partition(".")
    # A name with another domain is outside the cluster, whatever its first parts are called: api.openai.com.
    is_outside = bool(rest) and domain not in ("svc", "svc.cluster.local")
    return namespace or agent.namespace, "" if is_outside or _is_address(host) else name


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _to_service(host: str, port: int, agent: Agent, facts: Facts) -> Rule:
    """Return the rule for a Service: its Pods and their port where it is known, else its namespace and the port."""
    namespace, name = _service_of(host, agent)
    if not name:
        return {}
    service = facts.services.get(f"{namespace}/{name}", {})
    # The label that the API server sets on each namespace since Kubernetes 1.21.
    peer: Rule = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    if selector := at(service, "spec", "selector"):
        peer["podSelector"] = {"matchLabels": dict(selector)}
    ports = at(service, "spec", "ports", default=[])
    # A NetworkPolicy sees the port of the Pod, not that of the Service.
    target = next(
        (port_of_service.get("targetPort", port) for port_of_service in ports if port_of_service.get("port") == port),
        port,
    )
    return {"to": [peer], "ports": [{"protocol": "TCP", "port": target}]}


def _selected(peer: IngressPeer | EgressPeer) -> Rule:
    if peer.cidr is not None:
        return {"ipBlock": {"cidr": peer.cidr}}
    selectors = {"namespaceSelector": peer.namespace_selector, "podSelector": peer.pod_selector}
    return {name: selector for name, selector in selectors.items() if selector is not None}


def _unique(rules: Any) -> list[Rule]:
    """Return the rules in order, each once."""
    unique: list[Rule] = []
    for rule in rules:
        # Two tools on one server would give two equal rules; order is kept so that a plan shows no change.
        if rule not in unique:
            unique.append(rule)
    return unique


_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Pods: their namespace and labels, and the port on which they answer."""

    namespace: str
    labels: Mapping[str, str]
    port: int


def denied_by(sender: Endpoint, receiver: Endpoint, policies: Iterable[Manifest]) -> str:
    """
    Return which policies deny TCP from one to the other, empty where it is allowed.

    Pods that no policy of a direction selects are not restricted; of those that do, one rule has to allow it. Source:
    Kubernetes documentation, "Network Policies". A namespace selector is decided by the name of the namespace alone.
    """
    known = list(policies)
    for direction, own, other, members in (("Egress", sender, receiver, "to"), ("Ingress", receiver, sender, "from")):
        named = [policy for policy in known if _selects(policy, own, direction)]
        rules = [rule for policy in named for rule in at(policy, "spec", direction.lower()) or ()]
        if named and not any(_allows(rule, members, own, other, receiver.port) for rule in rules):
            return f"{direction.lower()} of {', '.join(sorted(ref_of(policy).name for policy in named))}"
    return ""


def denied_check(agent: Agent, policies: Iterable[Manifest]) -> str:
    """Return which policies deny requests of the Pods that check an Agent, and what to allow; empty where none does."""
    port = agent.spec.runtime.port
    sender = Endpoint(agent.namespace, {CHECK_LABEL: agent.name}, 0)
    # The Agent's own policy selects neither Pods of Jobs nor what denies them.
    denied = denied_by(sender, Endpoint(agent.namespace, {AGENT_LABEL: agent.name}, port), policies)
    if not denied:
        return ""
    needed = f"allow Pods with the label {CHECK_LABEL}={agent.name} DNS and port {port} of the agent"
    return f"the {denied} denies the requests of the check: {needed}"


def _selects(policy: Manifest, endpoint: Endpoint, direction: str) -> bool:
    spec = policy.get("spec") or {}
    # the API server's default
    kinds = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    is_here = ref_of(policy).namespace == endpoint.namespace
    return is_here and direction in kinds and matches(spec.get("podSelector") or {}, endpoint.labels)


def _allows(rule: Mapping[str, Any], members: str, own: Endpoint, other: Endpoint, port: int) -> bool:
    peers: Sequence[Mapping[str, Any]] = rule.get(members) or ()
    is_peer = not peers or any(_is_peer(peer, own, other) for peer in peers)
    ports = rule.get("ports") or ()
    return is_peer and (not ports or any(_is_port(allowed, port) for allowed in ports))


def _is_peer(peer: Mapping[str, Any], own: Endpoint, other: Endpoint) -> bool:
    if "ipBlock" in peer:
        # for addresses outside of the cluster: those of Pods do not last (Kubernetes documentation, "Network Policies")
        return False
    namespaces = peer.get("namespaceSelector")
    pods = peer.get("podSelector")
    if namespaces is None:
        # without a selector: the namespace of the policy
        is_near = own.namespace == other.namespace
    else:
        is_near = matches(namespaces, {_NAMESPACE_NAME: other.namespace})
    return is_near and (pods is None or matches(pods, other.labels))


def _is_port(allowed: Mapping[str, Any], port: int) -> bool:
    if allowed.get("protocol", "TCP") != "TCP":
        return False
    first = allowed.get("port")
    return (
        first is None
        or first == port
        or (isinstance(first, int) and first <= port <= int(allowed.get("endPort", first)))
    )
