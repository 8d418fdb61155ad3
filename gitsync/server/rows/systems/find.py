"""Systems of applications, the policies of their namespaces, and their brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView
from gitsync.server.rows.agents import FoundAgent, Live, Owned

_SYSTEM = "MultiAgentSystem"


def find_system(views: Iterable[ApplicationView], live: Live, namespace: str, name: str) -> FoundAgent | None:
    """Return a system with the application that holds it, None where none does."""
    wanted = ObjectRef(AGENTS_GROUP, _SYSTEM, namespace, name)
    for view in views:
        held = any(item.ref == wanted for item in view.resources)
        if held and (manifest := live(view.key, wanted)) is not None:
            return FoundAgent(view.key, manifest)
    return None


def policies_of(
    views: Iterable[ApplicationView], namespace: str, agents: Iterable[Manifest], owned: Owned
) -> list[Manifest]:
    """Return the NetworkPolicies of a namespace: of the agents, and those that applications hold."""
    declared = (item.change.live for view in views for item in view.resources if item.ref.kind == "NetworkPolicy")
    owned_ones = (child for agent in agents for child in owned(uid_of(agent)))
    found = {ref_of(one): one for one in (*declared, *owned_ones) if one is not None}
    return [one for ref, one in sorted(found.items()) if ref.kind == "NetworkPolicy" and ref.namespace == namespace]


def brokers_of(system: Manifest) -> list[str]:
    """Return a line for each channel of a broker."""
    return [
        f"{channel.get('name')}: {', '.join(channel.get('from', ()))} to {', '.join(channel.get('to', ()))},"
        f" {at(channel, 'broker', 'type')} {at(channel, 'broker', 'url')}, topic {channel.get('topic')}"
        for channel in at(system, "spec", "channels") or ()
        if "broker" in channel
    ]
