"""ApplicationSets on the dashboard: those that wait or failed on the home page, and a filter of their Applications."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gitsync.server.queries.applications import set_problems
from gitsync.server.visibility import VisibleSets
from tests.server.conftest import Open
from tests.server.fakes import StillSets, application, stored_set

HELD = {"since": "2026-03-01T10:00:00Z"}


def test_sets_that_wait_or_failed_need_attention(site: Open) -> None:
    opened = site([application()])
    alone = stored_set("alone", "Current", "True")
    since = {"lastTransitionTime": "2026-03-01T10:30:00Z"}
    outage = {"type": "SourceReady", "status": "False", "reason": "FetchFailed", "message": "Git does not answer"}
    alone["status"]["conditions"].append({**outage, **since})
    opened.engine.sets.known = [
        stored_set("good", "Current", "True"),
        stored_set("busy", "Writing"),
        stored_set("failed", "InvalidInput"),
        alone,
        stored_set("held", "AwaitingApproval", heldDeletions=HELD),
    ]
    page = opened.get("/").text
    assert re.findall(r"/apps\?q=(set%3A[a-z]+)", page) == ["set%3Aheld", "set%3Aalone", "set%3Afailed"]
    assert "Git does not answer" in page
    assert "AwaitingApproval of &lt;held&gt;" in page
    assert 'datetime="2026-03-01T10:00:00' in page
    assert "matches Git" not in page


def test_applications_are_filtered_by_their_set(site: Open) -> None:
    mine, other = application("mine"), application("other")
    assert mine.application is not None
    opened = site([replace(mine, application=replace(mine.application, set="shops")), other])
    page = opened.get("/apps?q=set:shops").text
    assert set(re.findall(r'href="/apps/gitsync/([a-z]+)"', page)) == {"mine"}


@pytest.mark.parametrize(("name", "count"), [("shops", 1), ("others", 0)])
def test_a_user_sees_the_sets_that_policies_show(name: str, count: int) -> None:
    sets = VisibleSets(StillSets([stored_set(name, "InvalidInput")]), lambda key: key == "gitsync/applicationset:shops")
    assert len(set_problems(sets.sets())) == count
