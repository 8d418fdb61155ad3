"""The head of an application's page."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from gitsync.objects.application import NamedSource, SourceGroup
from tests.server.conftest import Open
from tests.server.fakes import NOW, application


@pytest.mark.parametrize(
    ("status", "word"), [("True", "kept"), ("False", "exceeded"), ("Unknown", "not known")], ids=str
)
def test_it_says_whether_the_limits_after_a_sync_are_kept(site: Open, status: str, word: str) -> None:
    view = application("shop")
    found = {"type": "WithinLimits", "status": status, "message": "errors <1% & falling"}
    view = replace(view, status={**view.status, "conditions": [*view.status["conditions"], found]})
    text = site([view]).get("/apps/gitsync/shop").text
    assert re.search(rf"<dd>{word}<small>errors &lt;1% &amp; falling</small>", text)


def test_limits_are_not_named_where_there_are_none(site: Open) -> None:
    assert "Limits" not in site([application("shop")]).get("/apps/gitsync/shop").text


def test_each_of_several_sources_has_its_commit(site: Open) -> None:
    view = application("shop")
    assert view.application is not None
    sources = (
        NamedSource(name="web", repo_url="https://charts.example.com", chart="web", revision="1.x"),
        NamedSource(name="values", repo_url="https://git.example.com/values.git"),
    )
    joined = [{"name": "web", "commit": "a" * 40}, {"name": "values", "commit": "b" * 40}]
    view = replace(
        view,
        application=replace(view.application, source=SourceGroup.of(sources)),
        status={**view.status, "revision": {**view.status["revision"], "sources": joined}},
    )
    page = " ".join(site([view]).get("/apps/gitsync/shop").text.split())
    link = '<a class="commit" href="/changes?q=commit%3A{0}"><code>{0}</code></a>'
    assert f"web/.<small>1.x at {link.format('a' * 7)} of helm+https://charts.example.com/web</small>" in page
    assert f'values<small>main at {link.format("b" * 7)} of <a href="https' in page


def test_a_watched_application_is_as_it_is_now_and_a_stale_one_of_a_time(site: Open) -> None:
    """Nothing is reconciled while Git and the cluster report no change: the last comparison may be long ago."""
    view = replace(application("shop"), seen=NOW - timedelta(hours=2))
    page = " ".join(site([view]).get("/apps/gitsync/shop").text.split())
    assert "<dt>State of</dt><dd>now" in page
    assert "Watched; last compared" in page
    assert "Checked" not in page
    failed = {"type": "SourceReady", "status": "False", "message": "no answer", "lastTransitionTime": NOW.isoformat()}
    view = replace(view, status={**view.status, "conditions": [*view.status["conditions"], failed]})
    page = " ".join(site([view]).get("/apps/gitsync/shop").text.split())
    assert "<dt>State of</dt><dd>now" not in page
    assert "Watched" not in page
    assert re.search(r"<dt>State of</dt><dd><time[^>]*>2h</time> ago", page)


def test_a_commit_that_does_not_render_has_no_plan_that_matches(site: Open) -> None:
    view = application("shop")
    rendered = {"type": "Rendered", "status": "False", "reason": "RenderFailed", "message": "a.yaml:3: it is invalid"}
    status = {**view.status, "conditions": [*view.status["conditions"], rendered]}
    page = site([replace(view, status=status)]).get("/apps/gitsync/shop/plan").text
    assert "a.yaml:3: it is invalid" in page
    assert "No plan exists for" in page
    assert "Nothing to do" not in page
