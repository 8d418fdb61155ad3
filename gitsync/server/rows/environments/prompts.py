"""The versions of an agent's prompts: of now, of other environments, in Git, kept ones, and those of syncs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gitsync.objects.record import SyncRecord
from gitsync.server.formatting import utc, visible
from gitsync.server.rows.agent_changes import prompt_changes
from gitsync.server.rows.agents import FoundAgent, PromptRevision
from gitsync.services.text_versions import TextVersion

_MOST: Final = 60
"""Versions that can be selected."""


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """A text that can be compared; ``key`` names it in the URL."""

    key: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class PastPrompts:
    """What is known of former prompts: those of kept revisions, the versions in Git by name, and the latest syncs."""

    kept: Sequence[PromptRevision] = ()
    in_git: Mapping[str, Sequence[TextVersion]] = field(default_factory=dict)
    syncs: Sequence[SyncRecord] = ()


def prompt_versions(agent: FoundAgent, known: Iterable[FoundAgent], past: PastPrompts) -> list[PromptVersion]:
    """Return the versions, at most 60: now, in other environments, in Git, then the latest first."""
    place = agent.place
    same = [one for one in known if (one.place.family, one.place.name) == (place.family, place.name)]
    same.sort(key=lambda one: (one.ref != agent.ref, one.place.environment))
    synced = prompt_changes(past.syncs, agent)
    found = [*_now(same), *_in_git(past.in_git), *_kept(past.kept), *_synced(synced)]
    return list({one.key: one for one in reversed(found[:_MOST])}.values())[::-1]


def _now(agents: Iterable[FoundAgent]) -> Iterator[PromptVersion]:
    for one in agents:
        for prompt in one.settings.prompts:
            key = f"{one.ref.namespace}/{one.ref.name}/{prompt.name}"
            label = f"{one.place.environment}: {prompt.name} of {one.ref.name}, now"
            yield PromptVersion(visible(key), visible(label), prompt.text)


def _in_git(versions: Mapping[str, Iterable[TextVersion]]) -> Iterator[PromptVersion]:
    for name, texts in versions.items():
        for one in texts:
            commit, key = one.commit, f"commit-{one.commit.id[:12]}-{name}"
            when = f" of {utc(commit.time)}" if commit.time is not None else ""
            label = f"{name} in commit {commit.id[:12]}{when}, {commit.author}: {commit.subject}"
            yield PromptVersion(visible(key), visible(label), one.text)


def _kept(revisions: Iterable[PromptRevision]) -> Iterator[PromptVersion]:
    for one in revisions:
        yield PromptVersion(
            one.name, f"{one.name}, since {utc(one.since)}, commit {one.commit[:12] or 'unknown'}", one.text
        )


def _synced(changes: Iterable[tuple[SyncRecord, str, str, str]]) -> Iterator[PromptVersion]:
    for record, path, before, after in changes:
        name, commit = path.removeprefix(".data").strip('."[]'), record.commit
        when = f"sync {record.id} of {utc(record.started)}"
        by = f"commit {commit.id[:12]}, {commit.author}: {commit.subject}"
        yield PromptVersion(visible(f"after-{record.id}-{name}"), visible(f"{name} after {when}, {by}"), after)
        yield PromptVersion(visible(f"before-{record.id}-{name}"), visible(f"{name} before {when}"), before)
