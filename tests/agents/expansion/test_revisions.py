"""Equal inputs are one revision, whatever version of gitsync expands them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import (
    EXPANSION_VERSION,
    Revision,
    controller_revision,
    described_revision,
    is_upgrade_requested,
    revision_of,
    stored_revision,
    upgrade_limit,
)
from gitsync.agents.keys import UPGRADE
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.objects.manifest import content_hash
from tests.agents.expansion.test_expand import FACTS
from tests.agents.factories import agent, example

TEMPLATES = {
    # The content of all templates and configurations of the examples, by the version that expands them.
    2: "cd01f4f8d6ba27a8",
}


def parsed(annotations: dict[str, str] | None = None, **spec: Any) -> Agent:
    manifest = agent(**spec)
    metadata = {**manifest["metadata"], "uid": "0001", "annotations": annotations or {}}
    return parse_agent({**manifest, "metadata": metadata})


def older(revision: Revision, **members: Any) -> Revision:
    """Return a revision as another version of gitsync would have expanded it."""
    metadata = revision.template["metadata"]
    annotations = {**metadata.get("annotations", {}), "older": "yes"}
    template = {**revision.template, "metadata": {**metadata, "annotations": annotations}}
    return replace(revision, name="helper-older", template=template, expansion=EXPANSION_VERSION - 1, **members)


def test_an_upgrade_keeps_the_revision_of_an_equal_spec() -> None:
    kept = older(revision_of(parsed(), Facts()))
    found = described_revision(parsed(replicas=3), Facts(), {kept.name: kept}, "")
    assert (found.name, found.template, found.expansion) == (kept.name, kept.template, EXPANSION_VERSION - 1)


def test_a_changed_spec_is_expanded_by_the_newest_version() -> None:
    kept = older(revision_of(parsed(), Facts()))
    found = described_revision(parsed(version="2.0.0"), Facts(), {kept.name: kept}, "")
    assert (found.name != kept.name, found.expansion) == (True, EXPANSION_VERSION)


@pytest.mark.parametrize("change", [{"leaderElection": {}}, {"observability": {"metrics": {}}}])
def test_an_empty_section_that_pods_have_is_another_revision(change: dict[str, Any]) -> None:
    kept = revision_of(parsed(), Facts())
    assert described_revision(parsed(**change), Facts(), {kept.name: kept}, "").name != kept.name


def test_an_upgrade_expands_an_equal_spec_again() -> None:
    kept = older(revision_of(parsed(), Facts()))
    found = described_revision(parsed(), Facts(), {kept.name: kept}, "", upgrades=True)
    assert (found.name != kept.name, found.expansion) == (True, EXPANSION_VERSION)
    both = {kept.name: kept, found.name: found}
    assert described_revision(parsed(), Facts(), both, "").name == found.name


@pytest.mark.parametrize(
    ("value", "is_requested", "limit"),
    [
        ("", False, ""),
        (str(EXPANSION_VERSION - 1), False, ""),
        (str(EXPANSION_VERSION), True, ""),
        (f"{EXPANSION_VERSION + 1}/3", True, "3"),
        (f"{EXPANSION_VERSION}/10%", True, "10%"),
        ("newest/1", False, "1"),
    ],
)
def test_an_annotation_requests_an_upgrade(value: str, is_requested: bool, limit: str) -> None:
    annotations = {UPGRADE: value}
    assert (is_upgrade_requested(annotations), upgrade_limit(annotations)) == (is_requested, limit)


def test_a_revision_of_an_older_release_is_that_of_its_generation() -> None:
    kept = older(revision_of(parsed(), Facts(references="r1")), inputs="", spec=None)
    found = described_revision(parsed(), Facts(references="r1"), {kept.name: kept}, kept.name)
    assert (found.name, found.template) == (kept.name, kept.template)
    assert found.inputs
    assert found.spec is not None
    again = described_revision(parsed(), Facts(references="r1"), {found.name: found}, "")
    assert again == found


@pytest.mark.parametrize(
    "facts", [Facts(prompt="Other."), Facts(restarted_at="2026-01-01T00:00:00Z"), Facts(references="r2")]
)
def test_it_is_not_where_prompt_secrets_or_restart_differ(facts: Facts) -> None:
    prompt = {"configMapKeyRef": {"name": "prompt", "key": "system.md"}}
    kept = older(revision_of(parsed(prompt=prompt), Facts(prompt="Sort.")), inputs="", spec=None)
    changed = replace(facts, prompt=facts.prompt or "Sort.")
    assert described_revision(parsed(prompt=prompt), changed, {kept.name: kept}, kept.name).name != kept.name


def test_a_new_generation_is_not_that_of_an_older_release() -> None:
    kept = older(revision_of(parsed(), Facts()), inputs="", spec=None)
    assert described_revision(parsed(), Facts(), {kept.name: kept}, "").name != kept.name


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Helps."},
        {"owner": "team"},
        {"replicas": 5},
        {"suspend": True},
        {"network": {"policy": "Unmanaged"}},
        {"update": {"type": "Recreate"}},
        {"lifecycle": {"validate": [{"name": "answers", "http": {"path": "/"}}]}},
        {"expose": {"card": {"streaming": True}}},
    ],
)
def test_what_no_pod_has_replaces_no_pod(change: dict[str, Any]) -> None:
    kept = older(revision_of(parsed(), Facts()))
    assert described_revision(parsed(**change), Facts(), {kept.name: kept}, "").name == kept.name


def test_a_revision_is_read_as_it_was_kept() -> None:
    revision = revision_of(parsed(), Facts())
    assert stored_revision(controller_revision(parsed(), revision)) == revision


def test_another_expansion_has_another_version() -> None:
    """An upgrade would restart every Agent: raise EXPANSION_VERSION, and add the hash of the new templates."""
    made = [revision_of(parse_agent({**one, "metadata": {**one["metadata"], "uid": "1"}}), FACTS) for one in SAMPLES]
    assert TEMPLATES[EXPANSION_VERSION] == content_hash([[one.template, one.config] for one in made])[:16]


SAMPLES = (example(), agent(), agent(replicas=2, leaderElection={"retryPeriodSeconds": 3}))
