"""The revisions of an Agent as ``gitsync agent history`` and ``quality`` list them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.revisions import Revision, controller_revision, revision_of, stored_revision
from gitsync.agents.model.agent import parse_agent
from gitsync.cli.agent_revisions import quality_rows, revision_rows, with_failures
from gitsync.errors import ClusterUnavailable
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.ports import MetricResult, Sample
from tests.agents.factories import agent

FAILED = '{"result": "Failed", "passed": 3, "cases": 4, "results": [{"name": "no promise", "now": "failed"}]}'
SYNCS = (
    {"startedAt": "2026-01-01T10:00:00.5Z", "revision": "a" * 40, "author": "ann", "message": "first"},
    {"startedAt": "2026-01-01T11:00:00.5Z", "revision": "b" * 40, "author": "bob", "message": "promise"},
)


def kept(number: int, created: str, evaluation: str = "", **spec: Any) -> tuple[Revision, Manifest]:
    """Return a revision, and the object that keeps it."""
    found = parse_agent(agent(**spec))
    revision = replace(revision_of(found, Facts(), number), evaluation=evaluation)
    manifest = controller_revision(found, revision)
    return revision, {**manifest, "metadata": {**manifest["metadata"], "creationTimestamp": created}}


def test_each_revision_has_what_changed_its_commit_and_its_verdict() -> None:
    first, old = kept(1, "2026-01-01T10:00:00Z", prompt={"text": "Sort tickets."})
    second, new = kept(2, "2026-01-01T11:00:01Z", FAILED, prompt={"text": "Sort tickets.\nPromise a refund."})
    status = {"currentRevision": first.name, "failedRevision": second.name, "updateRevision": second.name}
    rows = list(revision_rows({**agent(), "status": status}, [old, new], SYNCS))
    assert [(row["revision"], row["state"], row["changed"], row["evaluation"]) for row in rows] == [
        (second.name, "failed", ["prompt"], "Failed 3/4"),
        (first.name, "serving", [], ""),
    ]
    assert [(row["commit"], row["author"], row["message"]) for row in rows] == [
        ("b" * 12, "bob", "promise"),
        ("a" * 12, "ann", "first"),
    ]
    assert rows[0]["cases"] == [{"name": "no promise", "now": "failed"}]
    assert [with_failures(row) for row in rows] == ["Failed 3/4: no promise", ""]
    assert {"mark": "+", "text": "Promise a refund."} in rows[0]["promptLines"]


def test_a_revision_names_the_other_parts_that_changed() -> None:
    _, old = kept(1, "2026-01-01T10:00:00Z")
    _, model = kept(2, "2026-01-01T10:00:01Z", model={"provider": "OpenAI", "id": "large"})
    _, image = kept(3, "2026-01-01T10:00:02Z", model={"provider": "OpenAI", "id": "large"}, runtime={"image": "a/b:2"})
    assert [row["changed"] for row in revision_rows(agent(), [old, model, image], ())] == [["pods"], ["model"], []]


def test_the_verdict_is_kept_with_its_revision() -> None:
    revision, manifest = kept(1, "2026-01-01T10:00:00Z", FAILED)
    assert stored_revision(manifest) == revision
    assert revision.name == kept(1, "2026-01-01T10:00:00Z")[0].name


def test_a_malformed_verdict_or_configuration_is_left_out() -> None:
    revision, manifest = kept(1, "2026-01-01T10:00:00Z", "{oops")
    config = {**manifest["data"]["config"], "agent.json": "[oops"}
    broken = {**manifest, "data": {**manifest["data"], "config": config}}
    _, newer = kept(2, "2026-01-01T11:00:00Z", model={"provider": "OpenAI", "id": "large"})
    newest, oldest = revision_rows(agent(), [broken, newer], ())
    assert (oldest["revision"], oldest["evaluation"]) == (revision.name, "")
    assert "model" in newest["changed"]


def test_quality_of_each_revision_that_served() -> None:
    ann = {"revision": "b-1", "state": "", "commit": "a" * 12, "evaluation": "Passed 4/4", "message": "first"}
    rows = [
        {**ann, "revision": "b-4", "state": "failed", "evaluation": "Failed 3/4", "created": "2026-01-01T12:30:00Z"},
        {**ann, "revision": "b-3", "state": "serving", "created": "2026-01-01T12:00:00Z"},
        {**ann, "revision": "b-2", "evaluation": "Failed 2/4", "created": "2026-01-01T11:00:00Z"},
        {**ann, "created": "2026-01-01T10:00:00Z"},
    ]
    asked: list[str] = []

    def ask(query: str) -> MetricResult:
        asked.append(query)
        # what failed never served, and has no figure
        return MetricResult((Sample(0.5),)) if "tool" not in query else MetricResult(problem="the query gives NaN")

    now = datetime(2026, 1, 1, 13, 0, tzinfo=UTC)
    figures = list(quality_rows(agent(), rows, ask, now))
    assert [(row["revision"], row["requests"], row["toolsOk"]) for row in figures] == [
        ("b-4", None, None),
        ("b-3", 0.5, None),
        ("b-2", None, None),
        ("b-1", 0.5, None),
    ]
    periods = [re.findall(r"\[\d+s\](?: offset \d+s)?", query)[0] for query in asked]
    assert list(dict.fromkeys(periods)) == ["[3600s]", "[7200s] offset 3600s"]
    assert all(f'namespace="{ref_of(agent()).namespace}", service="{ref_of(agent()).name}"' in query for query in asked)
    assert all(row["requests"] is None for row in quality_rows(agent(), rows, None, now))


def test_quality_without_an_answer_of_prometheus_is_an_error() -> None:
    row = {"revision": "b-1", "state": "serving", "commit": "", "evaluation": "", "message": ""}
    rows = [{**row, "created": "2026-01-01T10:00:00Z"}]
    answer = MetricResult(problem="Prometheus answered 503")
    now = datetime(2026, 1, 2, tzinfo=UTC)
    with pytest.raises(ClusterUnavailable, match="Prometheus answered 503"):
        list(quality_rows(agent(), rows, lambda _: answer, now))
