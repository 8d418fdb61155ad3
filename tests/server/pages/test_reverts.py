"""The way back: the commit that is offered, and the one that ran at a date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from gitsync.objects.application import Application
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

    def newest_change(self, app: Application, commits: Iterable[Commit]) -> Commit | None:
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
