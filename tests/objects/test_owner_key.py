"""The text of a key names its owner, and reading it back gives the same owner."""

from __future__ import annotations

import pytest

from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, APPLICATION_SET
from gitsync.objects.owner_key import OwnerKey
from gitsync.objects.ref import GroupKind, ObjectRef


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
