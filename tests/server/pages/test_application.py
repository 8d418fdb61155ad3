"""The head of an application's page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.server.conftest import Open
from tests.server.fakes import application


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
