from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.merge.schema import Schemas, builtin
from gitsync.merge.strategic import StrategicError, strategic_merge

DEPLOYMENT = builtin().for_kind("apps", "v1", "Deployment")
assert DEPLOYMENT is not None


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def patched(original: Any, patch: Any) -> Any:
    before = copy.deepcopy((original, patch))
    result = strategic_merge(original, patch, DEPLOYMENT)
    assert (original, patch) == before, "the inputs are not changed"
    return result


def containers(live: list[Any], patch: list[Any], **directives: Any) -> Any:
    return patched(pod(containers=live), pod(containers=patch, **directives))["spec"]["template"]["spec"]["containers"]


def test_an_item_is_merged_by_its_key() -> None:
    live = [{"name": "web", "image": "a", "tty": True}]
    assert containers(live, [{"name": "web", "image": "b"}]) == [{"name": "web", "image": "b", "tty": True}]


@pytest.mark.parametrize(
    ("live", "patch", "order"),
    [("ab", "ca", "cab"), ("ab", "c", "cab"), ("ab", "ba", "ba"), ("abc", "cb", "acb"), ("", "ba", "ba")],
)
def test_the_order_of_the_patch_wins_and_new_items_come_first(live: str, patch: str, order: str) -> None:
    assert containers(named(*live), named(*patch)) == named(*order)


@pytest.mark.parametrize(
    ("live", "patch", "order", "result"),
    [
        ("ab", "", "ba", "ba"),
        ("ab", "c", "abc", "abc"),
        ("ab", "c", "acb", "acb"),
        ("xab", "", "ba", "xba"),
        ("axb", "", "ab", "axb"),
    ],
)
def test_set_element_order_gives_the_order(live: str, patch: str, order: str, result: str) -> None:
    spec: dict[str, Any] = {"$setElementOrder/containers": named(*order)}
    if patch:
        spec["containers"] = named(*patch)
    merged = patched(pod(containers=named(*live)), pod(**spec))
    assert merged == pod(containers=named(*result))


def test_set_element_order_orders_primitive_lists_too() -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}}
    assert patched(live, patch) == {"metadata": {"finalizers": ["c", "b", "a"]}}


def test_set_element_order_of_a_list_that_is_nowhere_does_nothing() -> None:
    assert patched(pod(), pod(**{"$setElementOrder/containers": named("a")})) == pod()


def test_a_list_that_only_the_patch_has_is_taken_without_its_directives() -> None:
    spec = {
        "$setElementOrder/containers": named("a", "b"),
        "containers": [*named("a"), {"name": "b", "$patch": "delete"}],
    }
    assert patched(pod(), pod(**spec)) == pod(containers=named("a"))


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        pytest.param({"a": 1}, {"a": None}, {}, id="null removes"),
        pytest.param(
            {}, {"metadata": {"labels": {"a": None, "b": "x"}}}, {"metadata": {"labels": {"b": "x"}}}, id="not kept"
        ),
        pytest.param(
            {"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}, id="replace a map"
        ),
        pytest.param({"spec": {"a": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}, id="empty a map"),
        pytest.param({}, {"spec": {"$patch": "delete"}}, {}, id="delete what is absent"),
        pytest.param({"spec": 1}, {"spec": {"$patch": "delete"}}, {}, id="delete what is of another type"),
        pytest.param({"spec": 1}, {"spec": {"a": 2}}, {"spec": {"a": 2}}, id="another type is replaced"),
        pytest.param(pod(tolerations=[1]), pod(tolerations=[2]), pod(tolerations=[2]), id="an atomic list is replaced"),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "c"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="values out of a list",
        ),
        pytest.param(
            {},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            id="a map that was absent is taken as it is",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {}},
            id="values out of an absent list",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            id="a primitive list is united",
        ),
        pytest.param(
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}},
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
            id="retain keys",
        ),
    ],
)
def test_merges(original: Any, patch: Any, result: Any) -> None:
    assert patched(original, patch) == result


def test_deletes_and_replaces_items() -> None:
    assert containers(named("a", "b"), [{"name": "a", "$patch": "delete"}]) == named("b")
    assert containers(named("a", "b"), [{"name": "z", "$patch": "delete"}]) == named("a", "b")
    assert containers(named("a", "b"), [{"$patch": "replace"}, *named("c")]) == named("c")


@pytest.mark.parametrize(
    ("original", "patch", "code", "words"),
    [
        ({"spec": {}}, {"spec": {"$patch": "explode"}}, 500, "unknown patch type: explode in map: map[$patch:explode]"),
        (
            pod(containers=named("a")),
            pod(containers=[{"name": "a", "$patch": "x"}]),
            500,
            "unknown patch type: x in map:",
        ),
        (
            pod(containers=named("a")),
            pod(containers=[{"name": "a", "$patch": "merge"}]),
            500,
            "merging lists cannot yet",
        ),
        (
            pod(containers=named("a")),
            pod(containers=[{"image": "x"}]),
            500,
            "does not contain declared merge key: name",
        ),
        (pod(containers=named("a")), pod(containers=[{"$patch": "delete"}]), 500, "declared merge key: name"),
        (pod(containers=named("a")), pod(containers=["x"]), 500, "not identical"),
        (pod(containers=named("a")), pod(containers=[[]]), 500, "not identical"),
        (pod(containers=[[]]), pod(containers=[[]]), 422, "lists of lists"),
        (
            pod(containers=named("a")),
            pod(**{"$setElementOrder/containers": named("z"), "containers": named("a")}),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:z]]\n",
        ),
        (
            pod(containers=[]),
            pod(**{"$setElementOrder/containers": named("a")}),
            500,
            "no elements in any of the given slices",
        ),
        (pod(), pod(**{"$setElementOrder/containers": 1}), 400, "invalid patch format of setElementOrder list"),
        (pod(containers=named("a")), pod(**{"$setElementOrder/containers": [1]}), 400, "setElementOrder"),
        (
            {"spec": {"strategy": {}}},
            {"spec": {"strategy": {"$retainKeys": 1}}},
            400,
            "invalid patch format of retainKeys",
        ),
        (
            {"spec": {"strategy": {}}},
            {"spec": {"strategy": {"$retainKeys": ["a"], "type": "x"}}},
            400,
            "invalid patch format of retainKeys",
        ),
        ({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, 400, "primitive list"),
        ({}, [], 400, "not a map"),
    ],
)
def test_refuses_as_the_api_server_does(original: Any, patch: Any, code: int, words: str) -> None:
    with pytest.raises(StrategicError) as raised:
        strategic_merge(original, patch, DEPLOYMENT)
    assert raised.value.code == code
    assert words in raised.value.text
    assert "\n" not in str(raised.value)


JSON = st.recursive(
    st.sampled_from([1, "x", True, None]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "$patch", "spec", "template", "containers", "$retainKeys", "$setElementOrder/containers"]
            ),
            below,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_is_merged_or_refused(original: Any, patch: Any) -> None:
    wrapped = {"spec": {"template": {"spec": patch}}}
    with contextlib.suppress(StrategicError):
        json.dumps(strategic_merge({"spec": {"template": {"spec": original}}}, wrapped, DEPLOYMENT))


def test_lists_without_items_merge_to_nothing() -> None:
    assert containers([], []) == []


def test_a_list_of_maps_without_a_merge_key_cannot_be_merged() -> None:
    parts = {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge"}
    schema = Schemas({"t": {"type": "object", "properties": {"parts": parts}}}).named("t")
    with pytest.raises(StrategicError, match="cannot merge lists without merge key for list"):
        strategic_merge({"parts": [{"a": 1}]}, {"parts": [{"a": 2}]}, schema)
