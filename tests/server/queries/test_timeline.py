"""What a period changed of an object that was deleted and created again."""

from __future__ import annotations

from typing import Any

from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.server.queries.timeline import net_changes
from tests.server.fakes import NOW

REF = "/ConfigMap/shop/web"
OLD = {"kind": "ConfigMap", "data": {"mode": "open", "size": "1"}}
NEW = {"kind": "ConfigMap", "data": {"mode": "closed", "size": "1"}}


def sync(action: str, *differences: dict[str, Any]) -> SyncRecord:
    steps = (Step(REF, action, "Safe", "why", Outcome.SUCCEEDED, differences=differences),)
    return SyncRecord(
        "gitsync/shop", Commit("c" * 40, "Ada"), "commit", NOW, 1, Outcome.SUCCEEDED, "Safe", "d", steps=steps
    )


def whole(live: Any, desired: Any) -> dict[str, Any]:
    return {"path": "", "live": live, "desired": desired}


DELETED = sync("prune", whole(OLD, None))


def test_an_object_that_was_recreated_has_the_fields_that_differ() -> None:
    (change,) = net_changes([DELETED, sync("create", whole(None, NEW))])
    assert (change.step.action, change.syncs) == ("update", 2)
    assert change.step.differences == ({"path": ".data.mode", "live": "open", "desired": "closed"},)


def test_a_later_update_of_a_recreated_object_counts_from_the_first_value() -> None:
    later = sync("update", {"path": ".data.mode", "live": "closed", "desired": "ajar"})
    (change,) = net_changes([DELETED, sync("create", whole(None, NEW)), later])
    assert change.step.differences == ({"path": ".data.mode", "live": "open", "desired": "ajar"},)


def test_a_field_that_one_of_the_two_states_lacks_is_absent() -> None:
    recreated = sync("create", whole(None, {"kind": "ConfigMap", "data": {"mode": "open"}}))
    (change,) = net_changes([DELETED, recreated])
    assert change.step.differences == ({"path": ".data.size", "live": "1", "desired": None},)


def test_an_object_that_was_recreated_as_it_was_is_left_out() -> None:
    assert net_changes([DELETED, sync("create", whole(None, OLD))]) == []
