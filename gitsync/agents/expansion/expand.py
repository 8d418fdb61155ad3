"""Expand an Agent into its children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitsync.agents.expansion.access import (
    autoscaler,
    disruption_budget,
    service_account,
    service_monitor,
    services,
    traffic_route,
)
from gitsync.agents.expansion.checks import validation_job
from gitsync.agents.expansion.config import card, config_map
from gitsync.agents.expansion.election import leader_election
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import network_policy
from gitsync.agents.expansion.revisions import Revision, controller_revision
from gitsync.agents.expansion.volumes import claims
from gitsync.agents.expansion.workloads import workload
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.tracks import Placement, Track
from gitsync.objects.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Layout:
    """
    Where a rollout is: the workloads, and the tracks of the Services.

    ``active`` is the only track that serves, None where all serving tracks do; ``preview`` the one of the preview
    Service; ``checked`` the revision whose checks run or ran; ``autoscaled`` the track that an autoscaler scales;
    ``canary_weight`` the percentage of the requests that a route gives to the canary.
    """

    placements: tuple[Placement, ...]
    active: Track | None = None
    preview: Track | None = None
    checked: str = ""
    autoscaled: Track = Track.STABLE
    canary_weight: int = 0


def expand(agent: Agent, facts: Facts, layout: Layout, revisions: Mapping[str, Revision]) -> tuple[Manifest, ...]:
    """
    Return all children of an Agent.

    ``revisions`` are those to keep, by name; they contain those of the placements.
    """
    kept: Sequence[Revision] = tuple(revisions.values())
    tracks = {placement.track for placement in layout.placements}
    # Revisions with one configuration share its ConfigMap.
    configs = {str(sorted(revision.config.items())): config_map(agent, revision.config) for revision in kept}
    return (
        *service_account(agent),
        *leader_election(agent),
        *([card(agent)] if agent.spec.expose.protocol == "A2A" else []),
        *configs.values(),
        *claims(agent),
        *(controller_revision(agent, revision) for revision in kept),
        *network_policy(agent, facts),
        *services(agent, layout.active, layout.preview),
        *traffic_route(agent, layout.canary_weight),
        *(workload(agent, placement, revisions[placement.revision]) for placement in layout.placements),
        # An autoscaler whose target does not exist reports an error until it does.
        *(autoscaler(agent, layout.autoscaled) if layout.autoscaled in tracks else []),
        *disruption_budget(agent),
        *service_monitor(agent, facts),
        *(validation_job(agent, revisions[layout.checked], facts) if layout.checked else []),
    )
