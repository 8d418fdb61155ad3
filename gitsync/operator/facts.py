"""Gather the facts that an expansion depends on from the local copies."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitsync.agents.expansion.facts import Facts, MemberChannel
from gitsync.agents.expansion.network import named_services, required_services
from gitsync.agents.keys import RESTARTED_AT, SYSTEM_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.model.base import ConfigMapKeyRef
from gitsync.agents.model.system import System, parse_system
from gitsync.agents.references import Reference, references
from gitsync.agents.systems.members import agent_name
from gitsync.errors import InvalidInput, Refused
from gitsync.objects.manifest import (
    Manifest,
    at,
    content_hash,
    labels_of,
    metadata_of,
    resource_version_of,
    uid_of,
)
from gitsync.operator.kinds import AGENT, SYSTEM, own_resource, served_options
from gitsync.ports import ApiResource, Cluster, LiveCache

_FIRST_LIST = 5.0


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts, what a reference does not lead to, and the number of references."""

    facts: Facts
    missing: tuple[str, ...]
    references: int


class FactsReader:
    """Read the facts of Agents; Secrets are followed only where an Agent names one."""

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live

    def read(self, agent: Agent, status: Mapping[str, Any] | None = None) -> Gathered:
        """
        Return the facts of an Agent; raise ClusterUnavailable while a kind has not been listed.

        While a Secret or ConfigMap is missing, the hash of the ``status`` of the last reconcile stays: Pods that run
        have read it, and replacing them would end what serves.
        """
        named = references(agent)
        referenced = {reference: self.referenced(agent.namespace, reference) for reference in named}
        # The namespace is filtered here: the copies of Agents are shared with other readers.
        peers = [manifest for manifest in self.agents() if metadata_of(manifest).get("namespace") == agent.namespace]
        systems = self._systems(agent)
        problems = {reference: _missing(reference, manifest) for reference, manifest in referenced.items()}
        missing = tuple(filter(None, problems.values()))
        read_data = kept_references(referenced, ReadReferences.of_status(status or {}))
        facts = Facts(
            prompt=_prompt(agent, referenced),
            cases=_cases(agent, referenced),
            lock=_lock(agent, referenced),
            prices=_prices(agent, referenced),
            references=read_data.hash,
            references_data=read_data.data,
            served=served_options(self._cluster),
            ports={_name(peer): int(at(peer, "spec", "runtime", "port", default=8080)) for peer in peers},
            callers=tuple(sorted(_name(peer) for peer in peers if _calls(peer, agent.name))),
            channels=tuple(channel for system in systems for channel in _channels(system, agent.name)),
            topology=_topology(agent, systems),
            restarted_at=agent.annotations.get(RESTARTED_AT, ""),
        )
        servers = self._api_servers() if agent.spec.leader_election is not None else ()
        services, unreadable = self._services(agent, facts)
        facts = replace(facts, services=services, api_servers=servers)
        absent = tuple(
            f"Service {namespace}/{name} does not exist"
            for namespace, name in sorted(required_services(agent, facts))
            # What the controller may not read is not known to be missing.
            if f"{namespace}/{name}" not in services and namespace not in unreadable
        )
        return Gathered(facts, (*missing, *absent), len(named))

    def reached_by(self, agents: Iterable[Agent], facts: Facts) -> Facts:
        """
        Return the facts with the Services and API servers that an Agent reaches with the spec of any revision in use.

        Without them, the rule of a policy for a Service that only the serving revision has would name another port.
        """
        services = dict(facts.services)
        servers = facts.api_servers
        for agent in agents:
            services |= self._services(agent, facts)[0]
            if agent.spec.leader_election is not None:
                servers = servers or self._api_servers()
        return replace(facts, services=services, api_servers=servers)

    def referenced(self, namespace: str, reference: Reference) -> Manifest | None:
        """Return the object that a reference of a namespace names, None where it does not exist."""
        if reference.kind == "Agent":
            resource = own_resource(self._cluster, AGENT)
        else:
            resource = self._cluster.resource("", "v1", reference.kind)
        return self._followed(resource, namespace, reference.name)

    def _followed(self, resource: ApiResource | None, namespace: str, name: str) -> Manifest | None:
        if resource is None:
            return None
        # Only the namespace of a Secret: the controller need not be allowed to read all of them.
        self._live.follow([(resource, namespace)], _FIRST_LIST, only=resource.kind == "Secret")
        return self._live.get(resource, namespace, name)

    def agents(self) -> tuple[Manifest, ...]:
        """Return all Agents."""
        resource = own_resource(self._cluster, AGENT)
        return self._live.all(resource) if resource is not None else ()

    def _services(self, agent: Agent, facts: Facts) -> tuple[dict[str, Manifest], frozenset[str]]:
        """Return the Services that the Agent uses, and the namespaces whose Services the controller may not read."""
        resource = self._cluster.resource("", "v1", "Service")
        if resource is None:
            return {}, frozenset()
        services = {}
        unreadable = set()
        for namespace, name in sorted(named_services(agent, facts)):
            try:
                self._live.follow([(resource, namespace)], _FIRST_LIST)
                service = self._live.get(resource, namespace, name)
            # lost: the Pods of the Service; the rule allows its whole namespace instead
            except Refused:
                unreadable.add(namespace)
                continue  # its rule names the namespace and the port
            if service is not None:
                services[f"{namespace}/{name}"] = service
        return services, frozenset(unreadable)

    def _api_servers(self) -> tuple[tuple[str, int], ...]:
        """Return addresses and ports of the API servers, as the EndpointSlices of their Service have them."""
        resource = self._cluster.resource("discovery.k8s.io", "v1", "EndpointSlice")
        if resource is None:
            return ()
        self._live.follow([(resource, "default")], _FIRST_LIST)
        addresses = {
            (address, int(port["port"]))
            for manifest in self._live.all(resource)
            if metadata_of(manifest).get("namespace") == "default"
            # The name of the Service is a label; names of EndpointSlices end in random characters.
            and labels_of(manifest).get("kubernetes.io/service-name") == "kubernetes"
            for endpoint in manifest.get("endpoints") or ()
            for address in endpoint.get("addresses") or ()
            for port in manifest.get("ports") or ()
            # A port may be absent, which means all ports; a rule without a port would allow them too.
            if port.get("port")
        }
        return tuple(sorted(addresses))

    def _systems(self, agent: Agent) -> list[System]:
        """Return the valid systems of the namespace that the Agent is a member of."""
        resource = own_resource(self._cluster, SYSTEM)
        systems = []
        for manifest in self._live.all(resource) if resource is not None else ():
            if metadata_of(manifest).get("namespace") != agent.namespace:
                continue
            try:
                system = parse_system(manifest)
            except InvalidInput:
                continue  # its own reconcile reports it
            if any(agent_name(system, member) == agent.name for member in system.spec.agents):
                systems.append(system)
        # Sorted: the facts are hashed, and the order of local copies is not stable.
        return sorted(systems, key=lambda system: system.name)


def _prompt(agent: Agent, referenced: dict[Reference, Manifest | None]) -> str:
    prompt = agent.spec.prompt
    if prompt is None or prompt.config_map_key_ref is None:
        return ""
    return _copied(prompt.config_map_key_ref, referenced)


def _cases(agent: Agent, referenced: Mapping[Reference, Manifest | None]) -> str:
    """Return the hash of the cases of the evaluation, empty where there are none."""
    if agent.spec.evaluation is None:
        return ""
    return _copied_hash(agent.spec.evaluation.cases, referenced)


def _lock(agent: Agent, referenced: Mapping[Reference, Manifest | None]) -> str:
    """Return the hash of the lock of contracts, empty where there is none."""
    return _copied_hash(agent.spec.contract.lock, referenced) if agent.spec.contract else ""


def _prices(agent: Agent, referenced: Mapping[Reference, Manifest | None]) -> str:
    """Return the price table of the budget, empty where there is none."""
    budget = agent.spec.budget
    return _copied(budget.prices, referenced) if budget is not None and budget.prices is not None else ""


def _copied(ref: ConfigMapKeyRef, referenced: Mapping[Reference, Manifest | None]) -> str:
    manifest = referenced.get(Reference("ConfigMap", ref.name, ref.key, is_copied=True))
    return str(at(manifest, "data", ref.key, default=""))


def _copied_hash(ref: ConfigMapKeyRef, referenced: Mapping[Reference, Manifest | None]) -> str:
    text = _copied(ref, referenced)
    return content_hash(text)[:16] if text else ""


@dataclass(frozen=True, slots=True)
class ReadReferences:
    """
    What Pods read of Secrets and ConfigMaps, as a status keeps it.

    ``hash`` is a part of the Pod template. ``data`` is the hash of that data by the formula of this version, empty
    where both are the same.
    """

    hash: str = ""
    data: str = ""

    @classmethod
    def of_status(cls, status: Mapping[str, Any]) -> ReadReferences:
        """Return what the status of an Agent has, empty values before its first one."""
        return cls(str(status.get("referencesHash", "")), str(status.get("referencesData", "")))


def kept_references(referenced: Mapping[Reference, Manifest | None], last: ReadReferences) -> ReadReferences:
    """Return what Pods read now; the last hash stays while the data is the same or something of it is missing."""
    read = {reference: manifest for reference, manifest in referenced.items() if is_read_by_pods(reference)}
    if last.hash and any(_missing(reference, manifest) for reference, manifest in read.items()):
        return last
    data = _references_hash(read)
    # Another hash of the same data would be another template: an upgrade of gitsync would replace all these Pods.
    is_same = data == last.data if last.data else last.hash == _versions_hash(read)
    return ReadReferences(last.hash, data) if last.hash and is_same and data != last.hash else ReadReferences(data)


def _references_hash(read: Mapping[Reference, Manifest | None]) -> str:
    """Return the hash of the members that Pods read themselves; metadata and other members do not count."""
    identities = [
        [reference.kind, reference.name, reference.key, _content(reference, manifest)]
        for reference, manifest in read.items()
        if manifest is not None
    ]
    return content_hash(identities)[:12] if identities else ""


def _versions_hash(read: Mapping[Reference, Manifest | None]) -> str:
    """Return the hash by the formula of gitsync 0.1, with which Pods that still run were made."""
    identities = [
        [reference.kind, reference.name, uid_of(manifest), resource_version_of(manifest)]
        for reference, manifest in read.items()
        if manifest is not None
    ]
    return content_hash(identities)[:12] if identities else ""


def is_read_by_pods(reference: Reference) -> bool:
    """Whether Pods read what a reference names, so that they have to be replaced where its data changes."""
    # What is copied makes a new revision by its content, and Pods do not read the Agents that are named.
    return reference.kind != "Agent" and not reference.is_copied


def _content(reference: Reference, manifest: Manifest) -> str:
    """Return the hash of the member that a reference names, else of all members."""
    members = {**(manifest.get("data") or {}), **(manifest.get("binaryData") or {})}
    content = members.get(reference.key) if reference.key else members
    # The salt names the member: equal passwords of two Secrets have different hashes.
    if reference.kind == "Secret":
        namespace = str(metadata_of(manifest).get("namespace"))
        return _slow_hash(f"{namespace}/{reference.name}/{reference.key}", content_hash(content))
    return content_hash(content)


@functools.lru_cache(maxsize=4096)
def _slow_hash(salt: str, digest: str) -> str:
    """
    Return a hash that is expensive to compute: who reads Pods, but no Secrets, must not try passwords on it.

    It takes some 15 ms and 4 MiB, once for each content: 1,000 Secrets delay a start by a few seconds.
    """
    return hashlib.scrypt(digest.encode(), salt=salt.encode(), n=2**12, r=8, p=1, dklen=16).hex()


def _missing(reference: Reference, manifest: Manifest | None) -> str:
    if manifest is None:
        return f"{reference.kind} {reference.name} does not exist"
    members = {**(manifest.get("data") or {}), **(manifest.get("binaryData") or {})}
    if reference.key and reference.key not in members:
        return f"{reference.kind} {reference.name} has no member {reference.key}"
    return ""


def _calls(peer: Manifest, name: str) -> bool:
    return any(at(tool, "agentRef", "name") == name for tool in at(peer, "spec", "tools", default=[]))


def _channels(system: System, name: str) -> list[MemberChannel]:
    """Return the channels of a system that one Agent is part of."""
    names = {member.name: agent_name(system, member) for member in system.spec.agents}
    channels = []
    for channel in system.spec.channels:
        senders = [names[member] for member in channel.from_]
        receivers = [names[member] for member in channel.to]
        broker = channel.broker.url if channel.broker else ""
        if name not in (*senders, *receivers):
            continue
        channels.append(
            MemberChannel(
                channel.name,
                tuple(senders) if name in receivers and not broker else (),
                tuple(receivers) if name in senders and not broker else (),
                broker,
                channel.broker.credentials.secret_ref if channel.broker and channel.broker.credentials else None,
            )
        )
    return channels


def _topology(agent: Agent, systems: list[System]) -> str:
    """Return the ConfigMap of the system that created the Agent, else of the only one that names it."""
    own = agent.labels.get(SYSTEM_LABEL)
    names = [system.name for system in systems if own in (None, system.name)]
    return f"{names[0]}-topology" if len(names) == 1 else ""


def _name(manifest: Manifest) -> str:
    return str(metadata_of(manifest).get("name"))
