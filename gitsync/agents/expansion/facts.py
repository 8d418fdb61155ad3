"""What an expansion depends on besides the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsync.agents.model.state import DatabaseSecret
from gitsync.objects.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Images:
    """Images of containers that are not the user's."""

    # Pinned: an image that moves would change Pods without a change of the Agent.
    http: str = "docker.io/curlimages/curl:8.16.0"
    oci: str = "ghcr.io/oras-project/oras:v1.3.0"
    buckets: str = "docker.io/rclone/rclone:1.71.0"
    collector: str = "docker.io/otel/opentelemetry-collector:0.137.0"


@dataclass(frozen=True, slots=True)
class MemberChannel:
    """A channel of a MultiAgentSystem that the Agent is part of: its peers by direction, by name of their Agents."""

    name: str
    senders: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    broker: str = ""
    secret: DatabaseSecret | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """
    What was observed of the cluster.

    ``prompt`` is the text that ``prompt.configMapKeyRef`` names, ``cases`` the hash of the cases of the evaluation,
    ``lock`` that of the lock of contracts, ``references`` the hash of the members of Secrets and ConfigMaps that Pods
    read, ``served`` the optional kinds that the cluster serves, ``ports`` the ports of other Agents, ``services`` the
    Services by ``namespace/name``, ``callers`` the Agents that have this one as a tool, ``topology`` the ConfigMap of
    the MultiAgentSystem, and ``api_servers`` the addresses and ports of the API servers, which are read only where the
    Agent talks to them.
    """

    prompt: str = ""
    cases: str = ""
    lock: str = ""
    prices: str = ""
    """The text of the price table of the budget."""
    references: str = ""
    references_data: str = ""
    """The hash of the same data by this version of gitsync, empty where ``references`` is that."""
    served: frozenset[str] = frozenset()
    has_native_sidecars: bool = True
    ports: Mapping[str, int] = field(default_factory=dict)
    services: Mapping[str, Manifest] = field(default_factory=dict)
    callers: tuple[str, ...] = ()
    channels: tuple[MemberChannel, ...] = ()
    topology: str = ""
    api_servers: tuple[tuple[str, int], ...] = ()
    restarted_at: str = ""
    images: Images = field(default_factory=Images)
