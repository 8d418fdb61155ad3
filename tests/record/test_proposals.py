"""Previews of pull requests over a restart, in both databases."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import update

from gitsync.ports.previews import KeptProposal, Proposal, ProposalView
from gitsync.record.database import RecordDatabase
from gitsync.record.proposals import SqlProposals
from gitsync.record.tables import PROPOSALS
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
