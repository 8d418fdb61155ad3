"""The versions of an agent's prompts: of now, of other environments, kept ones, and those of past syncs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gitsync.objects.record import SyncRecord
from gitsync.server.formatting import utc, visible
from gitsync.server.rows.agent_changes import prompt_changes
from gitsync.server.rows.agents import FoundAgent, PromptRevision

_MOST: Final = 60
"""Versions that can be selected."""


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """A text that can be compared; ``key`` names it in the URL."""

    key: str
    label: str
    text: str


def prompt_versions(
    agent: FoundAgent, known: Iterable[FoundAgent], kept: Iterable[PromptRevision], records: Iterable[SyncRecord]
) -> list[PromptVersion]:
    """Return the versions, at most 60: now, in other environments, then the latest first."""
    place = agent.place
    same = [one for one in known if (one.place.family, one.place.name) == (place.family, place.name)]
    same.sort(key=lambda one: (one.ref != agent.ref, one.place.environment))
    found = [*_now(same), *_kept(kept), *_synced(prompt_changes(records, agent))]
    return list({one.key: one for one in reversed(found[:_MOST])}.values())[::-1]


def _now(agents: Iterable[FoundAgent]) -> Iterator[PromptVersion]:
    for one in agents:
        for name, text in one.settings.prompts:
            key = f"{one.ref.namespace}/{one.ref.name}/{name}"
            yield PromptVersion(visible(key), visible(f"{one.place.environment}: {name} of {one.ref.name}, now"), text)


def _kept(revisions: Iterable[PromptRevision]) -> Iterator[PromptVersion]:
    for one in revisions:
        yield PromptVersion(one.name, f"{one.name}, since {one.since}, commit {one.commit[:12] or 'unknown'}", one.text)


def _synced(changes: Iterable[tuple[SyncRecord, str, str, str]]) -> Iterator[PromptVersion]:
    for record, path, before, after in changes:
        name, commit = path.removeprefix(".data").strip('."[]'), record.commit
        when = f"sync {record.id} of {utc(record.started)}"
        by = f"commit {commit.id[:12]}, {commit.author}: {commit.subject}"
        yield PromptVersion(visible(f"after-{record.id}-{name}"), visible(f"{name} after {when}, {by}"), after)
        yield PromptVersion(visible(f"before-{record.id}-{name}"), visible(f"{name} before {when}"), before)
