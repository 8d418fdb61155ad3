from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.change import ABSENT, Difference, FieldDifference
from gitsync.plan.display import changes_in, inner_changes, inner_lines


def rule(port: int, *names: str) -> dict[str, Any]:
    return {"from": [{"podSelector": {"matchLabels": {"app": name}}} for name in names], "ports": [{"port": port}]}


def test_only_the_changed_leaf_of_an_atomic_list_is_named() -> None:
    (change,) = inner_changes([rule(80, "web"), rule(443, "api")], [rule(80, "web"), rule(8443, "api")])
    assert (change.path, change.live, change.desired) == ("[1].ports[0].port", 443, 8443)


def test_an_item_put_in_front_leaves_the_others_alone() -> None:
    (change,) = inner_changes(["a", "b"], ["new", "a", "b"])
    assert (change.path, change.live, change.desired) == ("[0]", ABSENT, "new")


def test_members_that_come_and_go() -> None:
    changes = {change.path: change for change in inner_changes({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})}
    assert changes[".a"].desired is ABSENT
    assert changes[".b.c"].desired is ABSENT
    assert changes[".b.d"].live is ABSENT


@pytest.mark.parametrize(("live", "desired"), [("a", "b"), (1, {"a": 1}), (ABSENT, [1]), ([1], {"a": 1}), ([1], [1])])
def test_plain_values_and_equal_ones_have_no_inside(live: Any, desired: Any) -> None:
    assert inner_changes(live, desired) == ()


def test_a_huge_difference_is_bounded() -> None:
    assert len(inner_changes(list(range(500)), list(range(1000, 1500)))) == 40


def test_a_text_of_json_is_compared_as_what_it_holds() -> None:
    (change,) = inner_changes('{"a": 1, "b": [1, 2]}', '{"b":[1,3],"a":1}')
    assert (change.path, change.live, change.desired) == (".b[1]", 2, 3)
    assert inner_changes("{no json", '{"a": 1}') == ()


def test_what_is_too_large_for_a_person_is_not_taken_apart() -> None:
    assert inner_changes(list(range(3000)), [0]) == ()


def difference(live: Any, desired: Any, kind: Difference = Difference.CHANGED) -> FieldDifference:
    return FieldDifference(".spec.ingress", "/spec/ingress", kind, desired, live)


def test_what_the_api_server_puts_in_is_no_change() -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    live, desired = [{"ports": [{"port": 80, "protocol": "TCP"}]}], [{"ports": [{"port": 81}]}]
    (change,) = changes_in(difference(live, desired), policy)
    assert (change.path, change.live, change.desired) == ("[0].ports[0].port", 80, 81)
    assert len(changes_in(difference(live, desired), {"apiVersion": "example.com/v1", "kind": "Own"})) == 2
    assert len(changes_in(difference(live, desired), None)) == 2


def test_order_and_absence_have_no_inside() -> None:
    assert changes_in(difference(["a", "b"], ["b", "a"], Difference.ORDER), None) == ()
    assert changes_in(difference(ABSENT, [1], Difference.GONE), None) == ()


def test_a_text_is_compared_line_by_line() -> None:
    assert [line.mark + line.text for line in inner_lines("a\nb\nc", "a\nB\nc")] == [" a", "-b", "+B", " c"]
    assert inner_lines("a", "b") == inner_lines(1, "b") == ()
