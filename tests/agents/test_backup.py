"""Which backups are due and kept, and which claims they copy."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitsync.agents.backup import (
    BackupResult,
    KnownBackup,
    claims_of,
    due,
    expired,
    guard_id,
    known_backups,
    seconds_until_next,
)
from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.state import Backup
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from tests.agents.factories import agent, example

NIGHTLY = Backup(schedule="0 3 * * *", keep=2)
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def snapshot(id: str, created: str, name: str = "data", **status: object) -> Manifest:
    metadata = {"name": f"{name}-{id}", "labels": {"agents.gitsync.dev/backup": id}, "creationTimestamp": created}
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": metadata,
        "status": status,
    }


def good(id: str, created: str) -> KnownBackup:
    return known_backups([snapshot(id, created, readyToUse=True)])[0]


def test_the_schedule_asks_for_one_backup_for_each_time() -> None:
    assert due(NIGHTLY, CREATED, NOW, ()) == "20260105030000"
    assert due(NIGHTLY, CREATED, NOW, (good("20260105030000", ""),)) == ""
    assert due(NIGHTLY, NOW, NOW, ()) == ""
    assert due(Backup(), CREATED, NOW, ()) == ""
    assert seconds_until_next(NIGHTLY, NOW) == 15 * 3600
    assert seconds_until_next(Backup(), NOW) is None


def test_failed_and_surplus_backups_are_deleted_and_the_newest_is_kept() -> None:
    found = known_backups(
        [
            snapshot("e", "2026-01-05T00:00:00Z", error={"message": "x"}),
            snapshot("d", "2026-01-04T00:00:00Z", error={"message": "x"}),
            *(snapshot(id, f"2026-01-0{day}T00:00:00Z", readyToUse=True) for id, day in (("c", 3), ("b", 2), ("a", 1))),
        ]
    )
    assert [one.id for one in found] == ["e", "d", "c", "b", "a"]
    assert [one.id for one in expired(NIGHTLY, found, "")] == ["a", "d"]


def test_the_backup_that_a_change_waits_for_is_kept() -> None:
    second = "2026-01-05T00:00:00Z"
    found = known_backups(snapshot(f"generation-{number}", second, readyToUse=True) for number in (9, 11, 10, 2))
    assert [one.id for one in found] == [f"generation-{number}" for number in (11, 10, 9, 2)]
    assert [one.id for one in expired(Backup(keep=1), found, "generation-2")] == ["generation-10", "generation-9"]
    failed = known_backups(
        [snapshot("generation-3", second, error={"message": "x"}), snapshot("z", "2026-01-06T00:00:00Z")]
    )
    assert expired(NIGHTLY, failed, "generation-3") == ()


def test_of_backups_of_one_second_the_one_written_last_is_newer() -> None:
    second = "2026-01-05T00:00:00Z"
    requested = snapshot("one", second, readyToUse=True)
    before_change = snapshot("generation-2", second, readyToUse=True)
    requested["metadata"]["resourceVersion"] = "98"
    before_change["metadata"]["resourceVersion"] = "103"
    backups = known_backups([requested, before_change])
    assert [backup.id for backup in backups] == ["generation-2", "one"]
    assert [backup.id for backup in expired(Backup(keep=1), backups, "generation-2")] == ["one"]
    # its deletion, while a finalizer holds it
    requested["metadata"] |= {"resourceVersion": "120", "deletionTimestamp": second}
    assert [backup.id for backup in known_backups([requested, before_change])] == ["generation-2", "one"]


def test_a_backup_that_an_earlier_agent_left_guards_no_change() -> None:
    left, own = good("generation-2", "2025-12-31T00:00:00Z"), good("generation-2", CREATED.isoformat())
    assert guard_id(2, "0123456789", CREATED, ()) == "generation-2"
    assert guard_id(2, "0123456789", CREATED, (own,)) == "generation-2"
    assert guard_id(2, "0123456789", CREATED, (left,)) == "generation-2-01234567"


@pytest.mark.parametrize(
    ("ends", "result"),
    [
        ([{"readyToUse": True}, {"readyToUse": True}], BackupResult.SUCCEEDED),
        ([{"readyToUse": True}, {}], BackupResult.RUNNING),
        ([{"readyToUse": False, "error": {"message": "no space"}}, {}], BackupResult.FAILED),
    ],
)
def test_a_backup_ends_as_its_worst_part(ends: list[dict[str, object]], result: BackupResult) -> None:
    (found,) = known_backups(snapshot("a", "", name, **end) for name, end in zip("xy", ends, strict=True))
    assert found.result is result
    assert ("no space" in found.message) is (result is BackupResult.FAILED)


def test_the_claims_of_all_replicas_are_copied_and_no_others() -> None:
    names = ["triage-models", "history-triage-0", "history-triage-11", "history-triage-x", "history-other-0", "models"]
    found = claims_of(parse_agent(example()), names, "triage")
    assert found == ["history-triage-0", "history-triage-11", "triage-models"]


def test_a_schedule_is_a_cron_expression() -> None:
    with pytest.raises(InvalidInput, match="not a cron expression"):
        parse_agent(agent(backup={"schedule": "0 25 * * *"}))
