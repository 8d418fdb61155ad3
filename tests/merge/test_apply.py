"""Ownership, conflicts and values of applies, and the merge of an applied value into a live one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.merge.apply import (
    Applied,
    Conflicts,
    FieldManager,
    Managers,
    Owned,
    Writer,
    apply,
    merge,
    update,
    with_named_fields,
)
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import DEDUCED
from gitsync.merge.typed import TypedError, field_set
from tests.merge.sample_schema import ROOT, VALUES

ONE = FieldManager("one", "Apply")
TWO = FieldManager("two", "Apply")
EDITOR = FieldManager("editor", "Update", api_version="v1")


class Object:
    """An object with its managers, written to step by step."""

    def __init__(self) -> None:
        self.value: Any = {}
        self.managers: Managers = {}

    def apply(
        self, manager: FieldManager, value: Any, *, force: bool = False, time: str | None = None
    ) -> Conflicts | None:
        writer = Writer(manager, "v1", time)
        result = apply(self.value, copy.deepcopy(value), ROOT, self.managers, writer, force=force)
        if isinstance(result, Conflicts):
            return result
        assert isinstance(result, Applied)
        self.value, self.managers = result.object, result.managers
        return None

    def update(self, value: Any, manager: FieldManager = EDITOR, time: str | None = None) -> None:
        self.managers = update(self.value, value, ROOT, self.managers, Writer(manager, "v1", time))
        self.value = value

    def paths(self, manager: FieldManager) -> set[str]:
        owned = self.managers.get(manager)
        return {"/".join(e[2:] for e in path) for path in owned.fields} if owned else set()


@pytest.fixture
def obj() -> Object:
    return Object()


def test_a_value_nobody_applies_any_more_is_removed(obj: Object) -> None:
    obj.apply(ONE, {"labels": {"a": "x", "b": "y"}, "text": "x"})
    obj.apply(ONE, {"labels": {"a": "x"}})
    assert obj.value == {"labels": {"a": "x"}}
    assert obj.paths(ONE) == {"labels/a"}


def test_a_value_somebody_else_owns_stays(obj: Object) -> None:
    obj.apply(ONE, {"labels": {"a": "x", "b": "y"}})
    obj.apply(TWO, {"labels": {"b": "y"}})
    obj.apply(ONE, {"labels": {"a": "x"}})
    assert obj.value == {"labels": {"a": "x", "b": "y"}}


def test_a_value_an_editor_owns_stays_too(obj: Object) -> None:
    obj.update({"text": "x"})
    obj.apply(ONE, {"text": "x", "number": 1})
    obj.apply(ONE, {"number": 1})
    assert obj.value == {"text": "x", "number": 1}
    assert obj.paths(EDITOR) == {"text"}


def test_an_item_goes_with_what_only_its_owner_set_in_it(obj: Object) -> None:
    obj.apply(ONE, {"items": [{"name": "a", "value": 1}, {"name": "b"}]})
    obj.apply(ONE, {"items": [{"name": "b"}]})
    assert obj.value == {"items": [{"name": "b"}]}


def test_an_item_stays_for_another_applier_with_what_it_set(obj: Object) -> None:
    obj.apply(ONE, {"items": [{"name": "a", "value": 1}]})
    obj.apply(TWO, {"items": [{"name": "a", "labels": {"x": "y"}}]})
    obj.apply(ONE, {"number": 1})
    assert obj.value == {"items": [{"name": "a", "labels": {"x": "y"}}], "number": 1}


def test_another_value_conflicts_and_changes_nothing(obj: Object) -> None:
    obj.apply(ONE, {"text": "x", "labels": {"a": "1"}})
    before = (obj.value, obj.managers)
    conflicts = obj.apply(TWO, {"text": "y", "labels": {"a": "2"}})
    assert conflicts is not None
    assert [(c.manager, c.field) for c in conflicts.conflicts] == [(ONE, ".labels.a"), (ONE, ".text")]
    assert (obj.value, obj.managers) == before


def test_the_same_value_is_shared(obj: Object) -> None:
    obj.apply(ONE, {"text": "x"}, time="1")
    assert obj.apply(TWO, {"text": "x"}, time="2") is None
    assert obj.paths(ONE) == obj.paths(TWO) == {"text"}
    assert [obj.managers[m].time for m in (ONE, TWO)] == ["1", None], "only ownership changed"


def test_force_takes_the_field(obj: Object) -> None:
    obj.apply(ONE, {"text": "x", "number": 1})
    obj.apply(TWO, {"text": "y"}, force=True)
    assert obj.value == {"text": "y", "number": 1}
    assert obj.paths(ONE) == {"number"}


def test_a_manager_that_lost_everything_is_gone(obj: Object) -> None:
    obj.apply(ONE, {"text": "x"})
    obj.apply(TWO, {"text": "y"}, force=True)
    assert set(obj.managers) == {TWO}


def test_applying_nothing_gives_everything_up(obj: Object) -> None:
    obj.apply(ONE, {"text": "x"})
    obj.apply(ONE, {})
    assert obj.managers == {}
    assert not obj.value


def test_an_editor_takes_what_it_changes_from_everybody(obj: Object) -> None:
    obj.apply(ONE, {"text": "x", "number": 1})
    obj.update({"text": "y", "number": 1}, time="2")
    assert obj.paths(ONE) == {"number"}
    assert obj.paths(EDITOR) == {"text"}
    obj.update({"text": "x", "number": 1})
    assert obj.paths(ONE) == {"number"}, "changing it back does not give it back"


def test_a_removal_takes_the_field_from_everybody(obj: Object) -> None:
    obj.apply(ONE, {"text": "x", "number": 1})
    obj.update({"number": 1})
    assert set(obj.managers) == {ONE}
    assert obj.paths(ONE) == {"number"}


def test_an_editor_that_changes_nothing_owns_nothing(obj: Object) -> None:
    obj.apply(ONE, {"text": "x"})
    before = obj.managers
    obj.update({"text": "x"})
    assert obj.managers is before


def test_an_applier_that_gives_up_to_an_atomic_value_conflicts_as_a_whole(obj: Object) -> None:
    obj.apply(ONE, {"whole": {"a": "x"}})
    conflicts = obj.apply(TWO, {"whole": {"a": "x", "b": "y"}})
    assert conflicts is not None
    assert [c.field for c in conflicts.conflicts] == [".whole"]


def test_nobody_owns_ignored_paths_and_they_do_not_conflict(obj: Object) -> None:
    ignored = FieldSet.of([("f:part",)])
    managers: Managers = {ONE: Owned(FieldSet.of([("f:part", "f:a")]), "v1")}
    writer = Writer(TWO, "v1", ignored=ignored)
    result = apply({"part": {"a": "x"}}, {"part": {"a": "y"}, "text": "x"}, ROOT, managers, writer)
    assert isinstance(result, Applied)
    assert set(result.managers[TWO].fields) == {("f:text",)}


def test_an_editor_takes_no_ignored_path(obj: Object) -> None:
    value = {"part": {"a": "x"}, "text": "x"}
    ignored = FieldSet.of([("f:part",)])
    managers = update({}, value, ROOT, {}, Writer(EDITOR, "v1", ignored=ignored))
    assert set(managers[EDITOR].fields) == {("f:text",)}


def test_a_write_of_the_very_object_changes_nothing(obj: Object) -> None:
    obj.apply(ONE, {"text": "x"})
    before = obj.managers
    obj.update(obj.value)
    assert obj.managers is before


def test_what_does_not_fit_is_refused(obj: Object) -> None:
    with pytest.raises(TypedError, match="field not declared"):
        obj.apply(ONE, {"foo": 1})


def test_a_live_list_with_an_item_that_has_no_place_is_refused_in_words(obj: Object) -> None:
    obj.value = {"items": [None]}
    with pytest.raises(TypedError, match="null element"):
        obj.apply(ONE, {"items": [{"name": "a"}]})


STEPS = st.lists(st.tuples(st.sampled_from(["one", "two", "edit"]), VALUES), max_size=5)


@given(STEPS, VALUES)
@settings(max_examples=200)
def test_an_applied_value_is_there_is_owned_exactly_and_stays_put(
    steps: list[tuple[str, Any]], applied: dict[str, Any]
) -> None:
    obj = Object()
    for who, value in steps:
        try:
            if who == "edit":
                obj.update(value)
            else:
                obj.apply(FieldManager(who, "Apply"), value, force=True)
        except TypedError:
            return  # an item without a place in its list
    try:
        obj.apply(ONE, applied, force=True, time="1")
    except TypedError:
        return
    wanted = field_set(ROOT, applied)
    owned = obj.managers.get(ONE)
    assert (owned.fields if owned else FieldSet({})) == wanted
    for _manager, others in obj.managers.items():
        assert others.fields, "a manager without fields is gone"
    before = (obj.value, obj.managers)
    obj.apply(ONE, applied, time="2")
    assert without_empty(obj.value) == without_empty(before[0])
    assert {m: o.fields for m, o in obj.managers.items()} == {m: o.fields for m, o in before[1].items()}
    again = (obj.value, obj.managers)
    obj.apply(ONE, applied, time="3")
    assert obj.value is again[0]
    assert obj.managers is again[1], "applying again changes nothing, not even the time"


def without_empty(value: Any) -> Any:
    """Return a value as a server stores it: removing the last item leaves null behind, which counts as absent."""
    if isinstance(value, dict):
        kept = {name: without_empty(member) for name, member in value.items()}
        return {name: member for name, member in kept.items() if member is not None} or None
    if isinstance(value, list):
        return [without_empty(item) for item in value] or None
    return value


@given(VALUES, VALUES)
def test_giving_up_what_only_we_owned_leaves_the_object_as_it_was(theirs: Any, ours: Any) -> None:
    obj = Object()
    obj.apply(TWO, theirs)
    alone = obj.value
    try:
        if obj.apply(ONE, ours) is not None:
            return
    except TypedError:
        return
    obj.apply(ONE, {})
    assert ONE not in obj.managers
    if isinstance(theirs.get("any"), dict) and not isinstance(ours.get("any", {}), dict):
        return  # a scalar took the place of a map whose members, not the map, were owned
    assert set(field_set(ROOT, obj.value)) == set(field_set(ROOT, alone))


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "applied", "order"),
    [
        pytest.param("ab", "ba", "ba", id="the applied order wins"),
        pytest.param("xab", "ba", "xba", id="what stood before stays before"),
        pytest.param("axb", "ab", "axb", id="what stood between stays between"),
        pytest.param("abx", "ab", "abx", id="what stood after stays after"),
        pytest.param("ab", "cab", "cab", id="a new first item comes first"),
        pytest.param("ab", "acb", "acb", id="a new item stands where it is applied"),
        pytest.param("ab", "c", "abc", id="an unrelated item comes last"),
        pytest.param("", "ba", "ba", id="onto nothing"),
        pytest.param("ab", "", "ab", id="nothing applied"),
        pytest.param("abcd", "dcba", "dcba", id="reversed"),
    ],
)
def test_orders_items(live: str, applied: str, order: str) -> None:
    merged = merge(ROOT, {"items": named(*live)}, {"items": named(*applied)})
    assert merged["items"] == named(*order)
    assert merge(ROOT, {"set": list(live)}, {"set": list(applied)})["set"] == list(order)


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"labels": {"a": "1"}}, {"labels": {}}, {"labels": {"a": "1"}}),
        ({"labels": {"a": "1"}}, {"labels": None}, {"labels": {"a": "1"}}),
        ({"whole": {"a": "1"}}, {"whole": None}, {"whole": None}),
        ({"set": ["a"]}, {"set": None}, {"set": ["a"]}),
        ({"labels": None}, {"labels": {}}, {"labels": {}}),
        ({"labels": {}}, {"labels": None}, {"labels": None}),
        ({}, {"set": []}, {"set": []}),
        ({"set": []}, {"set": []}, {"set": []}),
        ({"number": 1}, {"number": 1.0}, {"number": 1}),
        ({"amount": "1"}, {"amount": "1000m"}, {"amount": "1000m"}),
        ({"amount": "1"}, {"amount": 1}, {"amount": 1}),
        ({"any": 1}, {"any": {"a": 1}}, {"any": {"a": 1}}),
        ({"any": 1}, {"any": True}, {"any": True}),
    ],
)
def test_merges(live: dict[str, Any], applied: dict[str, Any], merged: dict[str, Any]) -> None:
    got = merge(ROOT, live, applied)
    assert got == merged
    assert repr(got) == repr(merged), "True and 1 are not the same value"


def test_an_item_that_is_there_twice_is_replaced_by_the_applied_one() -> None:
    live = {"items": [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]}
    merged = merge(ROOT, live, {"items": [{"name": "a", "value": 3}]})
    assert merged == {"items": [{"name": "a", "value": 3}, {"name": "b"}]}


def test_a_scalar_takes_the_place_of_a_map() -> None:
    assert merge(DEDUCED, {"a": {"b": 1}}, {"a": 1}) == {"a": 1}


@given(VALUES, VALUES)
def test_what_is_applied_is_there_afterwards_and_nothing_else_is_lost(
    live: dict[str, Any], applied: dict[str, Any]
) -> None:
    before = copy.deepcopy((live, applied))
    try:
        merged = merge(ROOT, live, applied)
    except TypedError:
        return
    assert (live, applied) == before
    assert merge(ROOT, merged, applied) is merged
    everything = FieldSet(with_named_fields(ROOT, field_set(ROOT, merged).root))
    assert FieldSet({}) == field_set(ROOT, applied) - everything


@given(VALUES)
def test_applying_what_is_there_is_the_very_same_object(value: dict[str, Any]) -> None:
    assert merge(ROOT, value, copy.deepcopy(value)) is value
