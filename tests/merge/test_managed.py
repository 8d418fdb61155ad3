from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.merge.apply import FieldManager, Managers, Owned
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.managed import NEVER_OWNED, capped, decode, encode, is_reset

A, B = FieldSet.of([("f:a",)]), FieldSet.of([("f:b",)])


def updater(name: str, version: str = "v1") -> FieldManager:
    return FieldManager(name, "Update", "", version)


def test_entries_read_back_as_they_were_written() -> None:
    entries: list[dict[str, Any]] = [
        {
            "manager": "gitsync",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:phase": {}}},
            "subresource": "status",
        },
    ]
    assert encode(decode(entries)) == entries
    assert [list(entry) for entry in encode(decode(entries))] == [list(entry) for entry in entries]


def test_one_applier_is_one_entry_whatever_the_version_and_an_updater_is_not() -> None:
    v1, v2 = (
        {"manager": "m", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
        for version in ("v1", "v2")
    )
    assert len(decode([{**v1, "operation": "Apply"}, {**v2, "operation": "Apply"}])) == 1
    assert len(decode([{**v1, "operation": "Update"}, {**v2, "operation": "Update"}])) == 2


def test_entries_stand_by_operation_then_time_then_name() -> None:
    managers: Managers = {
        updater("z"): Owned(A, "v1", None),
        updater("a"): Owned(A, "v1", "2024-01-02T00:00:00Z"),
        updater("b"): Owned(A, "v1", "2024-01-01T00:00:00Z"),
        FieldManager("y", "Apply"): Owned(A, "v1", "2024-01-03T00:00:00Z"),
        FieldManager("x", "Apply", "status"): Owned(A, "v1", "2024-01-03T00:00:00Z"),
    }
    assert [entry["manager"] for entry in encode(managers)] == ["x", "y", "z", "b", "a"]


@pytest.mark.parametrize(
    "entry",
    [
        {"operation": "Patch", "fieldsType": "FieldsV1"},
        {"operation": "Apply", "fieldsType": "FieldsV2"},
        {"operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}},
        {},
    ],
)
def test_refuses_what_is_no_entry(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"metadata\.managedFields"):
        decode([entry])


def test_more_than_ten_updaters_become_one_of_ancient_changes() -> None:
    managers: Managers = {
        updater(f"m{i:02}"): Owned(FieldSet.of([(f"f:{i:02}",)]), "v1", f"2024-01-01T00:00:{i:02}Z") for i in range(12)
    }
    kept = capped(managers)
    ancient = kept[updater("ancient-changes")]
    assert set(ancient.fields) == {("f:00",), ("f:01",), ("f:02",)}
    assert ancient.time == "2024-01-01T00:00:02Z"
    assert len(kept) == 10
    again = capped({**kept, updater("new"): Owned(A, "v1", "2024-01-02T00:00:00Z")})
    assert set(again[updater("ancient-changes")].fields) >= {("f:00",), ("f:03",)}
    assert len(again) == 10


def test_the_oldest_of_one_version_are_put_together_and_appliers_never() -> None:
    managers: dict[FieldManager, Owned] = {
        updater(f"m{i:02}", f"v{i}"): Owned(A, f"v{i}", f"2024-01-01T00:00:{i:02}Z") for i in range(11)
    }
    assert len(capped(managers)) == 11, "all of other versions: none has a companion"
    appliers: Managers = {FieldManager(f"a{i}", "Apply"): Owned(A, "v1") for i in range(20)}
    assert capped(appliers) is appliers


@pytest.mark.parametrize(
    ("entries", "reset"), [([], True), ([{}], True), ([{"manager": "x"}], False), (None, False), ([{}, {}], False)]
)
def test_an_empty_list_clears_ownership(entries: Any, reset: bool) -> None:
    assert is_reset(entries) is reset


def test_what_identifies_an_object_is_never_owned_but_its_labels_may_be() -> None:
    assert ("f:metadata", "f:name") in NEVER_OWNED
    assert ("f:metadata", "f:labels") not in NEVER_OWNED


def test_an_entry_may_lack_a_name() -> None:
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
    assert encode(decode([entry])) == [entry]


def test_ancient_changes_that_are_not_the_oldest_stay_one_entry() -> None:
    ancient = updater("ancient-changes")
    managers: dict[FieldManager, Owned] = {
        updater(f"m{i:02}"): Owned(FieldSet.of([(f"f:{i:02}",)]), "v1", f"2024-01-01T00:00:{i:02}Z") for i in range(10)
    }
    kept = capped({**managers, ancient: Owned(A, "v1", "2024-01-01T00:00:00Z"), updater("late"): Owned(B, "v1")})
    assert ancient in kept
    assert {path for owned in kept.values() for path in owned.fields} >= {("f:a",), ("f:b",), ("f:00",), ("f:09",)}
