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
from gitsync.agents.expansion.revisions import Revision, agents_of, controller_revision
from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.expansion.volumes import claims
from gitsync.agents.expansion.workloads import workload
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.state import Placement, Track
from gitsync.objects.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Layout:
    """
    Where a rollout is: the workloads, and the tracks of the Services.

    ``active`` is the only track that serves, None where all serving tracks do; ``preview`` the one of the preview
    Service; ``checked`` the revision whose checks run or ran, and ``attempt`` the number of earlier attempts that were
    inconclusive; ``autoscaled`` the track that an autoscaler scales; ``canary_weight`` the percentage of the requests
    that a route gives to the canary.
    """

    placements: tuple[Placement, ...]
    active: Track | None = None
    preview: Track | None = None
    checked: str = ""
    autoscaled: Track = Track.STABLE
    canary_weight: int = 0
    attempt: int = 0


def sharing_of(
    agent: Agent, target: Revision, current: str, known: Mapping[str, Revision], in_use: frozenset[str]
) -> tuple[Sharing, frozenset[str]]:
    """
    Return the specs that shared children have to satisfy, and the revisions in use whose spec is not known.

    ``target`` is the revision of the spec, ``current`` the one that serves, empty before the first.
    """
    older = [known[name] for name in sorted(in_use) if name in known and name != target.name]
    others = agents_of(agent, older)
    # A target that is held or failed must not widen what the others share.
    if target.name in in_use:
        others[target.name] = agent
    serving = others.get(current or target.name, agent)
    return Sharing(serving, agent, others), frozenset(in_use & known.keys() - others.keys())


def expand(sharing: Sharing, facts: Facts, layout: Layout, revisions: Mapping[str, Revision]) -> tuple[Manifest, ...]:
    """
    Return all children of an Agent.

    ``revisions`` are those to keep, by name; they contain those of the placements.
    """
    agent = sharing.target
    kept: Sequence[Revision] = tuple(revisions.values())
    tracks = {placement.track for placement in layout.placements}
    # Revisions with one configuration share its ConfigMap.
    configs = {str(sorted(revision.config.items())): config_map(agent, revision.config) for revision in kept}
    return (
        *sharing.united(service_account),
        *leader_election(sharing),
        *sharing.united(card),
        *configs.values(),
        *claims(sharing),
        *(controller_revision(agent, revision) for revision in kept),
        *network_policy(sharing, facts),
        *services(sharing, layout.active, layout.preview),
        *traffic_route(sharing, layout.canary_weight),
        *(
            workload(sharing.of_revision(placement.revision), placement, revisions[placement.revision])
            for placement in layout.placements
        ),
        # An autoscaler whose target does not exist reports an error until it does.
        *(autoscaler(agent, layout.autoscaled) if layout.autoscaled in tracks else []),
        *disruption_budget(agent),
        *service_monitor(agent, facts),
        *(validation_job(sharing, revisions[layout.checked], facts, layout.attempt) if layout.checked else []),
    )
