"""Only what an Application marked itself, and none holds, is an orphan."""

from __future__ import annotations

from typing import Any

from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.tracking import orphans

A = ObjectRef("", "ConfigMap", "shop", "a")


def config_map(name: str, mark: str = "", **metadata: Any) -> Manifest:
    made = {"name": name, "namespace": "shop", "annotations": {TRACKING_ID: mark} if mark else {}, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": made}


def marked(name: str, owner: str = "gitsync/shop", **metadata: Any) -> Manifest:
    return config_map(name, f"{owner}:{ref_of(config_map(name)).path}", **metadata)


def test_what_no_application_holds_is_an_orphan_and_says_why() -> None:
    found = orphans(
        [marked("b"), marked("a"), marked("c", "gitsync/gone")], {"gitsync/shop": Inventory({A: InventoryEntry("v1")})}
    )
    assert [(orphan.ref.name, orphan.application, orphan.why) for orphan in found] == [
        ("c", "gitsync/gone", "its Application is gone"),
        ("b", "gitsync/shop", "its Application does not hold it"),
    ]


def test_what_is_not_marked_is_copied_or_is_going_is_none() -> None:
    copied = config_map("copy", f"gitsync/shop:{A.path}")
    going = marked("b", deletionTimestamp="2026-01-01T00:00:00Z")
    assert orphans([config_map("x"), copied, going], {"gitsync/shop": Inventory()}) == ()
