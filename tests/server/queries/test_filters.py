"""The filter of lists: what it accepts, what it matches, how members are added and removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitsync.server.queries.filters import NAMES, parse_moment, parse_query
from tests.server.fakes import NOW

ROW = {"kind": ("Deployment",), "by": ("kubectl-edit", "helm"), "name": ("web",)}
READ = {name: lambda row, name=name: row.get(name, ()) for name in NAMES}


def matches(text: str) -> bool:
    return parse_query(text, NAMES, NOW).matcher(READ, lambda row: "Deployment shop/web is slow")(ROW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("kind:deployment", True),
        ("kind:Deploy", False),
        ("kind:dep*", True),
        ("kind:Pod kind:Deployment", True),
        ("kind:Deployment by:argocd", False),
        ("-kind:Deployment", False),
        ("-kind:Pod", True),
        ("by:kubectl*", True),
        ("slow WEB", True),
        ("slow quick", False),
        ('kind:"Deployment" "is slow"', True),
        ("image:1.2", False),
    ],
)
def test_a_filter_matches(text: str, expected: bool) -> None:
    assert matches(text) is expected


def test_a_name_of_another_list_is_a_problem_and_an_unknown_one_is_a_word() -> None:
    found = parse_query("risk:Safe nginx:1.2 since:soon", ("app", "since"), NOW)
    assert found.words == ("nginx:1.2",)
    assert "risk: is not a filter of this list; it has app, since" in found.problem
    assert "since: is not a time; write 30m, 18h, 7d, or 2026-03-01" in found.problem


def test_members_are_added_and_removed() -> None:
    query = parse_query("kind:Pod web -ns:dev", NAMES, NOW)
    assert query.toggled("kind", "Job") == "kind:Pod -ns:dev kind:Job web"
    assert query.toggled("kind", "Pod") == "-ns:dev web"
    assert str(query.without("ns")) == "kind:Pod web"
    assert str(parse_query('by:"Ada Lovelace"', NAMES, NOW)) == 'by:"Ada Lovelace"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("18h", NOW - timedelta(hours=18)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-02-03", datetime(2026, 2, 3, tzinfo=UTC)),
        ("2026-02-03T04:05:06+00:00", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("yesterday", None),
        ("999999w", None),
        ("", None),
    ],
)
def test_times_are_durations_or_dates(text: str, expected: datetime | None) -> None:
    assert parse_moment(text, NOW) == expected


def test_one_application_is_found_only_by_its_full_name() -> None:
    assert parse_query("app:gitsync/shop", NAMES, NOW).application == "gitsync/shop"
    for text in ("app:shop", "app:gitsync/*", "app:a/b app:c/d", "-app:a/b", ""):
        assert parse_query(text, NAMES, NOW).application == ""
