"""A sync that wrote, and whose process ended before it saved a record of it, is in the history once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gitsync.errors import RecordUnavailable
from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.record.records import SqlRecords
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

KEY = f"{NAMESPACE}/shop"
Save = Callable[..., SyncRecord]


class _Ended(RecordUnavailable):
    """The end of a process, which a test cannot have."""


def interrupted(world: World, monkeypatch: pytest.MonkeyPatch, files: dict[str, str | None], *, saves: bool) -> Any:
    """Write a commit by a process that ends when it saves the record, before that or after it; return what it saves."""
    save = SqlRecords.save
    wanted: list[SyncRecord] = []

    def ends(records: SqlRecords, record: SyncRecord, *, keep: int = 0) -> SyncRecord:
        if saves and not wanted:
            save(records, record, keep=keep)
        wanted.append(record)
        raise _Ended("the process has ended")

    with monkeypatch.context() as patched:
        patched.setattr(SqlRecords, "save", ends)
        world.repo.commit("change", files)
        world.start()
        until(lambda: wanted, describe=world.status)
        world.stop()
    return wanted[0]


def recorded(world: World, commit: str) -> list[SyncRecord]:
    return [record for record in world.controller.records.history(KEY) if record.commit.id == commit]


FILES: dict[str, str | None] = {"shop/a.yaml": config_map("a", x="1"), "shop/web.yaml": deployment("web")}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("saves", [True, False])
def test_a_sync_is_in_the_history_once(
    world: World, monkeypatch: pytest.MonkeyPatch, *, saves: bool, is_first: bool
) -> None:
    world.application()
    if not is_first:
        world.repo.commit("open", {"shop/b.yaml": config_map("b", x="1")})
        world.start()
        world.synced(world.repo.git("rev-parse", "HEAD"))
        world.stop()
    wanted = interrupted(world, monkeypatch, FILES, saves=saves)
    world.start()
    world.synced(wanted.commit.id)
    until(lambda: recorded(world, wanted.commit.id), describe=lambda: world.controller.records.history(KEY))
    [record] = recorded(world, wanted.commit.id)
    assert (record.trigger, record.initiator, record.outcome) == ("commit", "automated", Outcome.SUCCEEDED)
    assert {step.ref for step in record.steps} == {step.ref for step in wanted.steps}
    assert (record.sync, record.digest, record.risk) == (wanted.sync, wanted.digest, wanted.risk)
    until(lambda: world.status()["history"][0]["id"] == record.id, describe=world.status)
    # the process that wrote it was only cut off, and saves its record now
    assert world.controller.records.save(wanted) == record
    world.stop()
    world.start()
    third = world.repo.commit("more", {"shop/c.yaml": config_map("c", x="1")})
    world.synced(third)
    assert len(recorded(world, wanted.commit.id)) == 1
    assert world.controller.records.verify() == ()


def test_a_sync_whose_outcomes_were_lost_too_is_in_the_history(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = SqlRecords.audit

    def ends(records: SqlRecords, links: Iterable[AuditRecord]) -> None:
        known = list(links)
        if any(link.sync and link.outcome is not Outcome.INTENDED for link in known):
            raise _Ended("the process has ended")
        audit(records, known)

    world.application()
    commit = world.repo.commit("change", FILES)
    with monkeypatch.context() as patched:
        patched.setattr(SqlRecords, "audit", ends)
        world.start()
        until(lambda: world.get("ConfigMap", "a") and world.get("Deployment", "web", api="apps/v1"))
        world.stop()
    world.start()
    world.synced(commit)
    until(lambda: recorded(world, commit), describe=lambda: world.controller.records.audit_records(KEY))
    [record] = recorded(world, commit)
    assert (record.trigger, record.outcome) == ("commit", Outcome.SUCCEEDED)
    assert {step.ref for step in record.steps} == {"/ConfigMap/shop/a", "apps/Deployment/shop/web"}
