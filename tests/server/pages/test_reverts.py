"""The way back to the state of a date: which commit ran then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitsync.objects.record import Commit, Outcome, SyncRecord
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application

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
