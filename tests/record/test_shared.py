"""Previews of pull requests over a restart, and sessions of users, in both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from gitsync.errors import InvalidInput
from gitsync.objects.user import BrowserSession, SavedView
from gitsync.ports.previews import KeptProposal, Proposal, ProposalView
from gitsync.record import shared
from gitsync.record.database import RecordDatabase
from gitsync.record.shared import SqlProposals, SqlSessions, SqlViews
from gitsync.record.tables import PROPOSALS, SESSIONS
from tests.preview.factories import deployment, report

BEFORE = {"prod/kustomization.yaml": "resources: [d.yaml]", "prod/d.yaml": deployment()}
NOW = datetime(2026, 11, 26, tzinfo=UTC)


def kept(name: str = "#1", **reported: str) -> KeptProposal:
    made = report(BEFORE, {**BEFORE, "prod/d.yaml": deployment(replicas=3, image="web:2\x00")})
    proposal = Proposal("https://git.example.com/shop", name, "Scale ü", "ada", "main", "change", "a" * 40, updated=NOW)
    return KeptProposal(ProposalView(proposal, ("gitsync/shop",), "b" * 40, made, "", NOW), reported, rules="r")


def test_what_one_process_keeps_another_reads_unchanged(database: RecordDatabase) -> None:
    rows = {"#1": kept(status="x", comment="y"), "gitsync/shop": KeptProposal(reported={"status": "z"})}
    SqlProposals(database).keep("repo", rows)
    assert SqlProposals(database).all() == {"repo": rows}


def test_only_changed_rows_are_read_again(database: RecordDatabase) -> None:
    store = SqlProposals(database)
    store.keep("repo", {"#1": kept(), "#2": kept("#2")})
    first = store.all()["repo"]
    SqlProposals(database).keep("repo", {"#2": kept("#2", status="x"), "#3": kept("#3")})
    second = store.all()["repo"]
    assert second["#1"] is first["#1"]
    assert second["#2"].reported == {"status": "x"}
    assert second.keys() == {"#1", "#2", "#3"}


def test_rows_are_deleted_alone_or_with_their_repository(database: RecordDatabase) -> None:
    store = SqlProposals(database)
    store.keep("repo", {"#1": kept(), "#2": kept("#2")})
    store.keep("other", {"#1": kept()})
    store.keep("repo", {"#1": None})
    assert {repository: set(rows) for repository, rows in store.all().items()} == {"repo": {"#2"}, "other": {"#1"}}
    store.forget("repo")
    assert store.all().keys() == {"other"}


def test_a_row_of_another_version_is_not_used(database: RecordDatabase) -> None:
    store = SqlProposals(database)
    store.keep("repo", {"#1": kept()})
    with database.writing() as connection:
        connection.execute(update(PROPOSALS).values(body='{"view": 1}', digest="0"))
    assert store.all() == {}


def session(id: str, owner: str = "ada", minute: int = 0) -> BrowserSession:
    started = NOW + timedelta(minutes=minute)
    return BrowserSession(id, owner, started, started + timedelta(hours=1), "192.0.2.1", "Firefox 145 on Linux")


def test_sessions_are_listed_by_owner_newest_first_and_ended(database: RecordDatabase) -> None:
    first, second, other = session("a"), session("b", minute=1), session("c", owner="eve")
    store = SqlSessions(database)
    for started in (first, second, other):
        store.start(started)
    replica = SqlSessions(database)
    assert replica.of("ada") == (second, first)
    replica.end(["a", "absent"])
    assert [store.is_open(id) for id in ("a", "b", "c", "absent")] == [False, True, True, False]
    store.end([])
    assert store.of("eve") == (other,)


def test_expired_sessions_leave_the_table_and_the_oldest_of_too_many(
    database: RecordDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_SESSIONS", 2)
    store = SqlSessions(database)
    for number, name in enumerate(["first", "second", "third"]):
        store.start(session(name, minute=number))
    store.start(session("of another", "eve", minute=3))
    assert [kept.id for kept in store.of("ada")] == ["third", "second"]
    store.start(session("later", minute=62))
    with database.reading() as connection:
        assert set(connection.execute(select(SESSIONS.c.id)).scalars()) == {"of another", "later"}


def test_saved_views_are_of_one_user_and_replaced_by_name(
    database: RecordDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MOST_VIEWS", 2)
    store = SqlViews(database)
    store.save("ada", SavedView("Sick", "/objects", "health:Degraded"))
    store.save("ada", SavedView("Sick", "/apps", "state:Degraded"))
    store.save("eve", SavedView("Sick", "/objects", "kind:Pod"))
    store.save("ada", SavedView("Sick", "/objects", "ünïcode"))
    with pytest.raises(InvalidInput, match="you have 2 saved views"):
        store.save("ada", SavedView("Another", "/objects", "x"))
    replica = SqlViews(database)
    assert [view.query for view in replica.of("ada")] == ["state:Degraded", "ünïcode"]
    replica.delete("ada", "/objects", "Sick")
    replica.delete("ada", "/objects", "absent")
    assert [view.url for view in store.of("ada")] == ["/apps?q=state%3ADegraded"]
    assert [view.query for view in store.of("eve")] == ["kind:Pod"]
