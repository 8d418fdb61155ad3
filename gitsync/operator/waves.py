"""Let changes reach an Agent in waves: rotated Secrets, and newer expansions that a user requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import (
    EXPANSION_VERSION,
    Revision,
    described_revision,
    is_upgrade_requested,
    revision_of,
    upgrade_limit,
)
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.references import Reference, references
from gitsync.agents.waves import WaveChange, WaveLimit, WavePart, WaveTurn, is_settled, part_in_wave, wave_turn
from gitsync.errors import InvalidInput
from gitsync.kube.times import timestamp
from gitsync.objects.change import ABSENT
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of, uid_of
from gitsync.operator.facts import FactsReader, ReadReferences, is_read_by_pods, kept_references
from gitsync.plan.display import inner_changes
from gitsync.ports import Clock

_MOST_PARSED: Final = 10_000
"""Agents whose references are remembered, so that a wave of many does not parse each of them for each other one."""
_MOST_CHANGES: Final = 20
"""Places of a Pod template that a status lists of an upgrade."""
_LONGEST_VALUE: Final = 80


@dataclass(frozen=True, slots=True)
class WaveState:
    """
    What of the changes an Agent takes now: the facts and the revision that follow, and the turns that it waits for.

    ``taken`` has the changes that it takes in a wave and their times, until it has settled with them.
    """

    facts: Facts
    target: Revision
    taken: Mapping[str, str]
    waits: tuple[WaveTurn, ...]
    expansion: Mapping[str, Any]

    def status(self, manifest: Manifest, status: dict[str, Any]) -> dict[str, Any]:
        """Return a status with what the waves add to it."""
        if not self.taken or is_settled({**manifest, "status": status}):
            return status
        return {**status, "wave": dict(self.taken)}


class WaveKeeper:
    """Decide when an Agent takes a change that others get too; what it decided is in the status of each Agent."""

    def __init__(self, facts: FactsReader, clock: Clock, limit: WaveLimit) -> None:
        self._facts = facts
        self._clock = clock
        self._limit = limit
        self._parsed: dict[tuple[str, int], tuple[Reference, ...]] = {}

    def advance(
        self, agent: Agent, manifest: Manifest, facts: Facts, stored: Mapping[str, Revision], observed: str
    ) -> WaveState:
        """Return what an Agent takes now; the arguments after the facts are those of ``described_revision``."""
        taken = dict(at(manifest, "status", "wave", default={}))
        waits = []
        last_references = ReadReferences.of_status(manifest.get("status") or {})
        if last_references.hash and facts.references != last_references.hash:
            turn = self._turn(manifest, WaveChange.REFERENCES, self._sharers(agent), self._limit)
            if turn.is_admitted:
                taken |= self._began(manifest, WaveChange.REFERENCES)
            else:
                waits.append(turn)
                # With the hash of before, the facts describe the revision that serves.
                facts = replace(facts, references=last_references.hash, references_data=last_references.data)
        target = described_revision(agent, facts, stored, observed)
        if target.expansion < EXPANSION_VERSION and is_upgrade_requested(agent.annotations):
            turn = self._turn(manifest, WaveChange.EXPANSION, self._requested(), self._requested_limit(agent))
            if turn.is_admitted:
                taken |= self._began(manifest, WaveChange.EXPANSION)
                target = described_revision(agent, facts, stored, observed, upgrades=True)
            else:
                waits.append(turn)
        return WaveState(facts, target, taken, tuple(waits), _expansion(agent, facts, target))

    def _turn(
        self, manifest: Manifest, change: WaveChange, parts: Iterable[tuple[Manifest, WavePart]], limit: WaveLimit
    ) -> WaveTurn:
        # One that takes no part, such as an Agent without Pods, does not wait for others.
        is_waiting = part_in_wave(manifest, change, is_outdated=True) is WavePart.WAITING
        return wave_turn(manifest, parts, limit) if is_waiting else WaveTurn()

    def _began(self, manifest: Manifest, change: WaveChange) -> dict[str, str]:
        """Return what the status remembers of an Agent that takes a change, nothing of one that takes no part."""
        is_waiting = part_in_wave(manifest, change, is_outdated=True) is WavePart.WAITING
        return {change.value: timestamp(self._clock.now().timestamp())} if is_waiting else {}

    def _requested_limit(self, agent: Agent) -> WaveLimit:
        # A user may have written the annotation by hand: without a readable limit, that of the operator applies.
        with suppress(InvalidInput):
            return WaveLimit.parse(upgrade_limit(agent.annotations))
        return self._limit

    def _sharers(self, agent: Agent) -> Iterator[tuple[Manifest, WavePart]]:
        """Yield the Agents whose Pods read a Secret or ConfigMap that those of this one read."""
        own = {(reference.kind, reference.name) for reference in references(agent) if is_read_by_pods(reference)}
        for manifest in self._facts.agents():
            if metadata_of(manifest).get("namespace") != agent.namespace:
                continue
            named = self._references(manifest)
            if own.isdisjoint((reference.kind, reference.name) for reference in named):
                continue
            last = ReadReferences.of_status(manifest.get("status") or {})
            referenced = {reference: self._facts.referenced(agent.namespace, reference) for reference in named}
            is_outdated = bool(last.hash) and kept_references(referenced, last).hash != last.hash
            yield manifest, part_in_wave(manifest, WaveChange.REFERENCES, is_outdated=is_outdated)

    def _requested(self) -> Iterator[tuple[Manifest, WavePart]]:
        """Yield the Agents that a user upgrades to the expansion of this version."""
        for manifest in self._facts.agents():
            if not is_upgrade_requested(annotations_of(manifest)):
                continue
            # Absent: this version has not reconciled it yet, so it has at most the expansion before.
            expansion = int(at(manifest, "status", "expansion", "revision", default=0))
            yield manifest, part_in_wave(manifest, WaveChange.EXPANSION, is_outdated=expansion < EXPANSION_VERSION)

    def _references(self, manifest: Manifest) -> tuple[Reference, ...]:
        """Return what the Pods of an Agent read, nothing for an invalid spec."""
        # By generation: the references of a spec cannot change without it.
        key = (uid_of(manifest), int(metadata_of(manifest).get("generation", 0)))
        named = self._parsed.get(key)
        if named is None:
            named = _read_references(manifest)
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            self._parsed[key] = named
        return named


def _read_references(manifest: Manifest) -> tuple[Reference, ...]:
    try:
        return tuple(reference for reference in references(parse_agent(manifest)) if is_read_by_pods(reference))
    except InvalidInput:
        return ()


def _expansion(agent: Agent, facts: Facts, target: Revision) -> dict[str, Any]:
    """Return the expansion of the revision, the newest one, and what an upgrade to that changes of its Pods."""
    versions: dict[str, Any] = {"revision": target.expansion, "available": EXPANSION_VERSION}
    if target.expansion >= EXPANSION_VERSION:
        return versions
    newest = revision_of(agent, facts)
    changes = (
        *inner_changes(target.template, newest.template),
        *inner_changes(target.config, newest.config),
    )
    rows = [f"{change.path.removeprefix('.')}: {_shown(change.live)} -> {_shown(change.desired)}" for change in changes]
    if not rows and newest.name != target.name:
        # Templates that are too large to compare place by place.
        rows = ["the Pod template differs"]
    return {**versions, "changes": rows[:_MOST_CHANGES]}


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
