"""The way back: the commit that is offered, and the one that ran at a date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import Action
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.services.revert import RevertEffect
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, resource

ROLLBACK = "/apps/gitsync/shop/rollback"


def filled(site: Open) -> Site:
    """Open a dashboard with a sync of each of four hours; the newest but one failed."""
    opened = site([application()])
    for hours, outcome in ((4, "Succeeded"), (3, "Succeeded"), (2, "Failed"), (1, "Succeeded")):
        commit = Commit(f"{hours}" * 40, "Ada", message="Change it")
        started = NOW - timedelta(hours=hours)
        opened.engine.records.save(
            SyncRecord("gitsync/shop", commit, "commit", started, 9, Outcome(outcome), "Safe", "d")
        )
    return opened


@pytest.mark.parametrize(
    ("at", "hours"),
    [
        pytest.param("30m", 1, id="a duration"),
        pytest.param("90m", 3, id="a sync that failed is skipped"),
        pytest.param((NOW - timedelta(hours=3)).strftime("%Y-%m-%d+%H:%M"), 3, id="a time without a zone, in UTC"),
        pytest.param((NOW - timedelta(hours=3.5)).strftime("%Y-%m-%dT%H:%M:%SZ"), 4, id="RFC 3339"),
    ],
)
def test_a_time_leads_to_the_commit_that_ran_then(site: Open, at: str, hours: int) -> None:
    answer = filled(site).get(f"{ROLLBACK}?at={at}")
    assert (answer.status, answer.headers["location"]) == (303, f"/apps/gitsync/shop/revert?after={str(hours) * 40}")


@pytest.mark.parametrize(
    ("at", "status", "text"),
    [("5h", 404, "is known that succeeded until"), ("yesterday", 422, "yesterday is not a time"), ("", 422, "a time")],
)
def test_a_time_without_a_commit_is_explained(site: Open, at: str, status: int, text: str) -> None:
    answer = filled(site).get(f"{ROLLBACK}?at={at}")
    assert (answer.status, text in answer.text) == (status, True)


def test_a_commit_of_a_page_further_back_is_found(site: Open) -> None:
    opened = filled(site)
    commit = Commit("f" * 40, "Ada", message="Heal it")
    for _ in range(120):
        opened.engine.records.save(SyncRecord("gitsync/shop", commit, "drift", NOW, 9, Outcome.SUCCEEDED, "Safe", "d"))
    assert opened.get(f"{ROLLBACK}?at=210m").headers["location"].endswith("4" * 40)


def test_the_history_asks_for_a_date(site: Open) -> None:
    page = filled(site).get("/apps/gitsync/shop/history").text
    assert f'action="{ROLLBACK}"' in page
    assert f'value="{NOW - timedelta(days=1):%Y-%m-%d %H:%M}"' in page


LATEST = [Commit("c" * 40, "Bob", message="Change the other"), Commit("b" * 40, "Ada", message="Open the shop")]


class Branch:
    """Two commits, of which some changed the Application."""

    def __init__(self, *changed: Commit) -> None:
        self.changed = changed

    def latest(self, app: Application) -> Sequence[Commit]:
        return LATEST

    def commits(self, app: Application, after: str) -> Sequence[Commit]:
        return LATEST[:1]

    def one_commit(self, app: Application, prefix: str) -> Sequence[Commit]:
        return [commit for commit in LATEST if commit.id.startswith(prefix)]

    def newest_change(self, app: Application, commits: Iterable[Commit], whole: Application) -> Commit | None:
        return next((commit for commit in commits if commit in self.changed), None)

    def effects(self, app: Application, commits: Sequence[Commit], followers: Sequence[object]) -> list[RevertEffect]:
        step = replace(resource("a").change, action=Action.UPDATE)
        return [RevertEffect(app.key, (step,) if commits[0] in self.changed else ())]


@pytest.mark.parametrize(
    ("changed", "offered", "title"),
    [
        ([LATEST[1]], LATEST[1], "Revert commit bbbbbbb?"),
        (LATEST, LATEST[0], "Revert the newest commit?"),
        ([], LATEST[0], "Revert the newest commit?"),
    ],
)
def test_the_newest_commit_with_an_effect_is_offered(
    site: Open, changed: list[Commit], offered: Commit, title: str
) -> None:
    opened = site([application()])
    opened.engine.reverts = opened.engine.preview = Branch(*changed)
    page = opened.get("/apps/gitsync/shop/revert").text
    assert title in page
    assert f'name="newest" value="{offered.id}"' in page
    assert f'name="commit" value="{"" if offered == LATEST[0] else offered.id}"' in page
    assert ("newer ones did not" in page) == (offered == LATEST[1])


def test_a_commit_that_was_asked_for_is_not_replaced(site: Open) -> None:
    opened = site([application()])
    opened.engine.reverts = opened.engine.preview = Branch(LATEST[1])
    assert f'name="newest" value="{LATEST[0].id}"' in opened.get("/apps/gitsync/shop/revert?commit=ccccccc").text


SOURCES = [
    {"name": "web", "repoURL": "https://charts.example.com", "chart": "web", "revision": "1.x"},
    {"name": "values", "repoURL": "https://git.example.com/values.git", "revision": "main"},
    {"name": "extra", "repoURL": "https://git.example.com/deploy.git", "revision": "main", "path": "prod"},
]


def joined(number: int, values: str, extra: str) -> dict[str, Any]:
    """Return the entry of a sync of several sources."""
    commits = {"web": "a", "values": values, "extra": extra}
    parts = [{"name": name, "commit": letter * 40} for name, letter in commits.items()]
    return {"id": number, "revision": f"{number}" * 40, "sources": parts}


def of_sources(site: Open, *history: dict[str, Any]) -> Site:
    """Open a dashboard with an Application of several sources; its newest sync is the first of the history."""
    manifest = {"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": {"sources": SOURCES}}
    newest = {"fetched": history[0]["revision"], "sources": history[0]["sources"]}
    view = application()
    status = {**view.status, "revision": {**view.status["revision"], **newest}, "history": list(history)}
    opened = site([replace(view, application=parse_application(manifest), status=status)])
    opened.engine.reverts = opened.engine.preview = Branch(*LATEST)
    return opened


def test_a_revert_of_several_sources_is_in_the_one_that_changed(site: Open) -> None:
    opened = of_sources(site, joined(3, "c", "b"), joined(2, "a", "b"), joined(1, "a", "a"))
    page = opened.get("/apps/gitsync/shop/revert").text
    assert 'name="source" value="values"' in page
    assert "A new commit of the source values takes this commit back" in page
    page = opened.get(f"/apps/gitsync/shop/revert?commit={'2' * 40}").text
    assert 'name="source" value="extra"' in page
    assert f'name="commit" value="{"b" * 40}"' in page


def test_where_two_sources_changed_one_is_chosen(site: Open) -> None:
    opened = of_sources(site, joined(2, "c", "b"), joined(1, "a", "a"))
    page = opened.get("/apps/gitsync/shop/revert").text
    assert "values, extra changed since that sync" in page
    assert 'href="/apps/gitsync/shop/revert?source=extra"' in page
    # a registry has no commits to revert
    assert "source=web" not in page
    assert 'name="source" value="extra"' in opened.get("/apps/gitsync/shop/revert?source=extra").text
    assert "is an artifact of a registry" in opened.get("/apps/gitsync/shop/revert?source=web").text
