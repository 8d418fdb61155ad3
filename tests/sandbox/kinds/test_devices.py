"""Kinds of resource.k8s.io, with the causes of a real 1.36.2 control plane."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.http_client import Client

GROUP = "/apis/resource.k8s.io/v1"
EXACT = {"deviceClassName": "d.example.com"}
REQUEST = {"name": "r", "exactly": EXACT}


def claims(api: Client) -> str:
    return api.namespace().replace("/api/v1", GROUP).replace("configmaps", "resourceclaims")


def claim(**devices: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"devices": devices}}


def causes(answer: Any) -> list[tuple[str, str]]:
    return [(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in answer.json["details"]["causes"]]


def test_a_request_is_for_one_device_where_it_names_no_number(api: Client) -> None:
    path = claims(api)
    made = api.ask("POST", path, claim(requests=[REQUEST])).json
    assert made["spec"]["devices"]["requests"] == [
        {"name": "r", "exactly": {**EXACT, "allocationMode": "ExactCount", "count": 1}}
    ]
    assert made["status"] == {}
    assert api.ask("DELETE", f"{path}/c").json["kind"] == "ResourceClaim"


def test_a_claim_without_requests_has_null_for_them(api: Client) -> None:
    assert api.ask("POST", claims(api), claim()).json["spec"]["devices"] == {"requests": None}


def test_the_spec_of_a_claim_may_not_change(api: Client) -> None:
    path = claims(api)
    made = api.ask("POST", path, claim(requests=[REQUEST])).json
    made["spec"]["devices"]["requests"][0]["name"] = "other"
    assert causes(api.ask("PUT", f"{path}/c", made)) == [("spec", "Invalid")]


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ({"requests": [{"name": "r"}]}, [("requests[0]", "Required")]),
        ({"requests": [{**REQUEST, "firstAvailable": [{"name": "s", **EXACT}]}]}, [("requests[0]", "Invalid")]),
        ({"requests": [REQUEST, REQUEST]}, [("requests[1]", "Duplicate")]),
        ({"requests": [{"name": "r"}] * 33}, [("requests", "TooMany")]),
        (
            {"requests": [{"name": "R", "exactly": {"allocationMode": "All", "count": 1}}]},
            [
                ("requests[0].name", "Invalid"),
                ("requests[0].exactly.deviceClassName", "Required"),
                ("requests[0].exactly.count", "Invalid"),
            ],
        ),
        (
            {"requests": [{"name": "r", "exactly": {**EXACT, "tolerations": [{"operator": "Exists", "value": "v"}]}}]},
            [("requests[0].exactly.tolerations[0].value", "Invalid")],
        ),
        (
            {"requests": [REQUEST], "constraints": [{"requests": ["x"], "matchAttribute": "a"}, {}]},
            [
                ("constraints[0].requests[0]", "Invalid"),
                ("constraints[0].matchAttribute", "Invalid"),
                ("constraints[1]", "Required"),
            ],
        ),
        (
            {"requests": [REQUEST], "config": [{}, {"opaque": {"driver": "d", "parameters": 1}}]},
            [("config[0].opaque", "Required"), ("config[1].opaque.parameters", "Invalid")],
        ),
    ],
)
def test_devices_of_a_claim_are_checked(api: Client, devices: dict[str, Any], found: list[tuple[str, str]]) -> None:
    answer = api.ask("POST", claims(api), claim(**devices))
    assert causes(answer) == [(f"spec.devices.{field}", reason) for field, reason in found]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"selectors": [{}]}, [("spec.selectors[0].cel", "Required")]),
        ({"selectors": [{"cel": {"expression": "-1"}}]}, [("spec.selectors[0].cel.expression", "Invalid")]),
        ({"selectors": [{"cel": {"expression": "x("}}]}, [("spec.selectors[0].cel.expression", "Invalid")]),
        ({"extendedResourceName": "cpu"}, [("spec.extendedResourceName", "Invalid")]),
    ],
)
def test_a_device_class_is_checked(api: Client, spec: dict[str, Any], found: list[tuple[str, str]]) -> None:
    body = {"metadata": {"name": "d"}, "spec": spec}
    assert causes(api.ask("POST", f"{GROUP}/deviceclasses", body)) == found


def test_a_device_class_counts_its_generations_and_shows_unknown_fields(api: Client) -> None:
    path = f"{GROUP}/deviceclasses"
    selector = {"cel": {"expression": 'device.driver == "x"'}}
    made = api.ask("POST", path, {"metadata": {"name": "d"}, "spec": {"selectors": [selector], "other": 1}})
    assert made.json["metadata"]["generation"] == 1
    assert made.json["spec"] == {"selectors": [selector]}
    assert 'unknown field \\"spec.other\\"' in made.headers["Warning"]
