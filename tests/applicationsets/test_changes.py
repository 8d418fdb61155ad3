"""What a set does with the Applications that exist."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.applicationsets.changes import Changes, changes
from gitsync.applicationsets.expand import Expansion
from gitsync.applicationsets.model import parse_application_set
from gitsync.objects.manifest import Manifest
from tests.applicationsets.factories import expanded, listed, manifest


def elements(*names: str) -> dict[str, Any]:
    return listed(*({"name": name} for name in names))


def live(*names: str) -> dict[str, Manifest]:
    """Return the Applications of a set as the API server stores them."""
    found = expanded(manifest(elements(*names))).applications
    stored = {name: copy.deepcopy(one.manifest) for name, one in found.items()}
    for name, one in stored.items():
        one["metadata"]["uid"] = f"uid-{name}"
        one["spec"]["sync"] = {"interval": "3m"}  # defaulted
    return stored


def compared(present: dict[str, Manifest], *names: str, approved: str = "", **policy: Any) -> Changes:
    given = manifest(elements(*names), syncPolicy=policy)
    given["metadata"]["annotations"] = {"gitsync.dev/approve-deletions": approved}
    found: Expansion = expanded(given)
    return changes(parse_application_set(given), found, present)


FIVE = ("a", "b", "c", "d", "e")


def test_nothing_is_done_where_nothing_differs() -> None:
    assert compared(live("a", "b"), "a", "b") == Changes({}, {}, {})


@pytest.mark.parametrize(
    ("before", "after", "limit", "reason"),
    [
        (FIVE, ("a", "b", "c", "d"), 25, ""),
        (FIVE, ("a", "b", "c"), 25, "2 of 5 Applications would be deleted, more than maxDeletePercent (25)"),
        (FIVE, ("a", "b", "c"), 40, ""),
        (FIVE, ("a", "b", "c", "d"), 0, "1 of 5 Applications would be deleted, more than maxDeletePercent (0)"),
        (("a",), ("b",), 100, "all 1 Applications would be deleted"),
        (FIVE, (), 100, "spec.generators[0] yields nothing"),
        ((), (), 25, ""),
    ],
)
def test_deletions_above_the_limits_wait(
    before: tuple[str, ...], after: tuple[str, ...], limit: int, reason: str
) -> None:
    found = compared(live(*before), *after, maxDeletePercent=limit)
    assert (found.held.reason if found.held else "") == reason
    assert sorted(found.deletes) == ([] if reason else sorted(set(before) - set(after)))


def test_an_approval_is_of_exactly_these_applications() -> None:
    present = live(*FIVE)
    held = compared(present, "a").held
    assert held is not None
    assert list(compared(present, "a", approved=held.id).deletes) == ["b", "c", "d", "e"]
    assert compared(present, "b", approved=held.id).held is not None
    present["b"]["metadata"]["uid"] = "recreated"
    assert compared(present, "a", approved=held.id).held is not None


def test_applications_of_others_are_left_alone() -> None:
    present = live("a", "b")
    del present["a"]["metadata"]["ownerReferences"]
    present["b"]["metadata"]["ownerReferences"][0]["uid"] = "of-a-set-before"
    found = compared(present, "a", "b", "c")
    assert (found.taken, list(found.creates), found.updates, found.deletes) == (("a", "b"), ["c"], {}, {})
    assert compared(present, "c").deletes == {}


def test_a_field_that_left_the_template_is_an_update() -> None:
    present = live("a")
    given = manifest(
        elements("a"), template={"metadata": {"name": "a"}, "spec": {"source": {"repoURL": "https://x/y"}}}
    )
    found = changes(parse_application_set(given), expanded(given), present)
    assert list(found.updates) == ["a"]


def test_what_users_set_through_gitsync_is_not_compared() -> None:
    present = live("a")
    present["a"]["spec"]["suspend"] = True
    fields = {"f:spec": {"f:suspend": {}}}
    present["a"]["metadata"]["managedFields"] = [{"manager": "gitsync-suspend", "fieldsV1": fields}]
    present["a"]["metadata"]["annotations"]["gitsync.dev/requested-sync"] = "now"
    assert compared(present, "a").updates == {}
    present["a"]["spec"]["source"]["path"] = "elsewhere"
    assert list(compared(present, "a").updates) == ["a"]


def test_an_application_that_is_being_deleted_is_created_later() -> None:
    present = live("a", "b")
    present["a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = compared(present, "a", "b")
    assert (found.leaving, found.creates, found.updates) == (("a",), {}, {})
