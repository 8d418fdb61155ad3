"""Fields of objects of any kind that hold values of Secrets: where they are, and that they are not shown."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gitsync.kube.masked_fields import SecretTexts, hide, masked_fields, values_at, with_masked_fields
from gitsync.objects.keys import LAST_APPLIED, MASKED_FIELDS
from gitsync.objects.manifest import annotations_of

PASSWORD = "hunter22-of-shop"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()


def deployment(*env: Any) -> dict[str, Any]:
    containers = [{"name": "web", "env": [{"name": f"V{number}", "value": value} for number, value in enumerate(env)]}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"team": "shop"}},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}},
    }


def marked(manifest: dict[str, Any], *texts: str) -> dict[str, Any]:
    return with_masked_fields(manifest, SecretTexts(texts))


def shown(manifest: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = hide(manifest, (), masked_fields(manifest), lambda value: "hidden")
    return result


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(PASSWORD, id="the value"),
        pytest.param(f"postgres://shop:{PASSWORD}@db/shop", id="inside an address"),
        pytest.param(ENCODED, id="as base64"),
    ],
)
def test_an_object_with_a_secret_value_names_the_field(value: str) -> None:
    made = marked(deployment("plain", value), PASSWORD)

    assert annotations_of(made) == {"team": "shop", MASKED_FIELDS: "/spec/template/spec/containers/*/env/*/value"}
    assert PASSWORD not in str(shown(made))
    assert ENCODED not in str(shown(made))


def test_the_pods_of_a_workload_name_it_too() -> None:
    made = marked(deployment(PASSWORD), PASSWORD)
    pod = {"metadata": made["spec"]["template"]["metadata"], "spec": made["spec"]["template"]["spec"]}

    assert masked_fields(pod) >= {("spec", "containers", "*", "env", "*", "value")}
    assert PASSWORD not in str(shown(pod))
    assert pod["metadata"]["labels"] == {"a": "b"}


def test_all_items_of_a_list_are_hidden_since_they_may_move() -> None:
    made = marked(deployment("plain", PASSWORD), PASSWORD)
    containers = made["spec"]["template"]["spec"]["containers"]
    containers[0]["env"].insert(0, {"name": "NEW", "value": "other"})

    env = shown(made)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [item["value"] for item in env] == ["hidden"] * 3
    assert [item["name"] for item in env] == ["NEW", "V0", "V1"]


def test_an_object_without_secret_values_is_the_same_one() -> None:
    manifest = deployment("plain", "true", None, 1)

    assert marked(manifest, PASSWORD, "1", "on") is manifest
    assert masked_fields(manifest, None) == frozenset()


def test_numbers_are_found_and_flags_are_not() -> None:
    config = {"kind": "Widget", "metadata": {"name": "w"}, "spec": {"pin": 123456, "on": True, "of/it": "123456"}}

    assert marked(config, "123456", "True")["metadata"]["annotations"] == {MASKED_FIELDS: "/spec/of~1it /spec/pin"}


def test_what_kubectl_remembers_is_hidden_too() -> None:
    made = marked(deployment(PASSWORD), PASSWORD)
    made["metadata"]["annotations"][LAST_APPLIED] = f'{{"value":"{PASSWORD}"}}'

    assert PASSWORD not in str(shown(made))


@pytest.mark.parametrize(
    ("pointer", "value", "result"),
    [
        (("spec",), {"a": [{"b": "x", "c": "y"}]}, {"a": [{"b": "hidden", "c": "y"}]}),
        (("spec", "a", "0"), {"b": "x"}, {"b": "hidden"}),
        (("spec", "a", "0", "b"), "x", "hidden"),
        (("spec", "a", "0", "b", "deeper"), "x", "hidden"),
        (("spec", "a", "0", "c"), "x", "x"),
        (("spec",), "not a mapping", "not a mapping"),
    ],
)
def test_a_part_of_an_object_is_hidden_by_its_place(pointer: tuple[str, ...], value: Any, result: Any) -> None:
    assert hide(value, pointer, {("spec", "a", "*", "b")}, lambda item: "hidden") == result


def test_a_pattern_names_an_item_by_its_number_too() -> None:
    patterns = {("a", "1")}
    assert hide({"a": ["x", "y"]}, (), patterns, lambda item: "hidden") == {"a": ["x", "hidden"]}
    assert list(values_at({"a": ["x", "y"]}, patterns)) == ["y"]


def test_a_message_is_shown_without_the_texts() -> None:
    assert SecretTexts([PASSWORD]).hidden_in(f"{PASSWORD} and {ENCODED} fail", "…") == "… and … fail"


def test_a_chart_cannot_mask_other_fields() -> None:
    made = deployment("plain")
    made["metadata"]["annotations"][MASKED_FIELDS] = "/spec/replicas"

    assert annotations_of(marked(made, PASSWORD)) == {"team": "shop"}
