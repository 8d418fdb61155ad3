"""
The inventory in a status: read back as it was written, and small enough for an object however long it is.

The text of a key names its owner, and reading it back gives the same owner.
"""

from __future__ import annotations

import uuid

import orjson
import pytest

from gitsync.objects.inventory import Finished, Inventory, InventoryEntry, OwnerKey
from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, APPLICATION_SET
from gitsync.objects.ref import GroupKind, ObjectRef


def inventory(count: int) -> Inventory:
    return Inventory(
        {
            ObjectRef("apps", "Deployment", f"team-with-a-name-{n % 40}", f"an-agent-with-a-name-{n}"): InventoryEntry(
                "v1", str(uuid.UUID(int=(n + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC834 % (1 << 128)))
            )
            for n in range(count)
        }
    )


@pytest.mark.parametrize("count", [0, 1, 2000, 2001, 10_000])
def test_what_is_written_is_read_back(count: int) -> None:
    assert Inventory.from_status(inventory(count).to_status()) == inventory(count)


def test_people_can_read_an_inventory_of_usual_length() -> None:
    assert inventory(1).to_status()["inventory"][0]["id"] == "apps/Deployment/team-with-a-name-0/an-agent-with-a-name-0"


def test_ten_thousand_entries_fit_into_an_object() -> None:
    assert len(orjson.dumps(inventory(10_000).to_status())) < 512 << 10


def test_a_long_inventory_is_unpacked_once() -> None:
    status = inventory(3000).to_status()
    again = {"packedInventory": "".join(list(status["packedInventory"]))}  # as another answer of the API server has it
    assert Inventory.from_status(status) is Inventory.from_status(again)
    assert Inventory.from_status(status).to_status() == status


def test_a_later_inventory_takes_the_place_of_the_one_before() -> None:
    first = inventory(3000).to_status()
    before = Inventory.from_status(first)
    other = Inventory({ref._replace(namespace="other"): entry for ref, entry in inventory(3000).entries.items()})
    kept = Inventory.from_status(other.to_status())
    Inventory.from_status(inventory(3001).to_status())
    assert Inventory.from_status(dict(first)) is not before
    assert Inventory.from_status(dict(other.to_status())) is kept


def test_an_inventory_that_has_the_entries_already_is_the_identical_one() -> None:
    ref, other = ObjectRef("", "ConfigMap", "shop", "a"), ObjectRef("", "ConfigMap", "shop", "b")
    held = Inventory({ref: InventoryEntry("v1", "uid")})
    assert held.widened({ref: InventoryEntry("v1")}) is held
    assert held.widened({other: InventoryEntry("v1")}).entries == {**held.entries, other: InventoryEntry("v1")}
    assert held.widened({ref: InventoryEntry("v2")}).entries == {ref: InventoryEntry("v2", "uid")}


def test_an_end_is_kept_until_the_object_is_written() -> None:
    ref = ObjectRef("batch", "Job", "shop", "migrate")
    entry = InventoryEntry("v1", "uid", Finished(False, "hash", "2026-03-01T12:00:00Z"))
    for held in (Inventory({ref: entry}), inventory(3000).with_entries({ref: entry})):
        assert Inventory.from_status(held.to_status()).entries[ref] == entry
    assert Inventory({ref: entry}).widened({ref: InventoryEntry("v1", "uid")}).entries[ref].finished is None


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (APPLICATION, "gitsync/shop"),
        (APPLICATION_SET, "gitsync/applicationset:shop"),
        (GroupKind(AGENTS_GROUP, "Agent"), "gitsync/agent:shop"),
        (GroupKind(AGENTS_GROUP, "MultiAgentSystem"), "gitsync/multiagentsystem:shop"),
    ],
)
def test_the_text_of_a_key_is_read_back(of: GroupKind, text: str) -> None:
    key = OwnerKey(of, "gitsync", "shop")
    assert str(key) == text
    assert OwnerKey.parse(text) == key
    assert OwnerKey.of_ref(key.ref) == key
    assert key.ref == ObjectRef(of.group, of.kind, "gitsync", "shop")


def test_an_application_with_the_name_of_a_kind_is_an_application() -> None:
    assert OwnerKey.parse("gitsync/agent") == OwnerKey(APPLICATION, "gitsync", "agent")
