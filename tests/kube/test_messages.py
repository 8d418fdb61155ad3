"""Messages of the API server without values as Go prints them, and answers of 1.36.2 that a replacement resolves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.cluster.errors import failure
from gitsync.errors import Cause, Conflict, GitsyncError, Refusal, Rejected
from gitsync.kube.messages import immutable_fields, readable


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:1}",
            ".data.a: must be a string, not 1: quote the value",
        ),
        (
            ".a: expected string, got &value.valueUnstructured{Value:[]interface {}{map[string]interface {}{}}}, no",
            ".a: expected string, got []interface {}{map[string]interface {}{}}, no",
        ),
        (".a: expected map, got &value.valueUnstructured{Value:true}", ".a: expected map, got true"),
        (
            'spec: Forbidden: may not change\n  core.PodSpec{\n  A: "}", B: core.X{C: 1},\n}',
            "spec: Forbidden: may not change\n  (…)",
        ),
        ('spec: Invalid value: []core.Taint{core.Taint{Key:"a"}}: no', "spec: Invalid value: (…): no"),
        (
            'Job "j" is invalid: spec.template: Invalid value: {"a": "' + 200 * "x" + '"}: field is immutable',
            'Job "j" is invalid: spec.template: Invalid value: (…): field is immutable',
        ),
        ('spec.template: Invalid value: {"a": 1}: field is immutable', None),
    ],
)
def test_go_values_are_rewritten(message: str, expected: str | None) -> None:
    assert readable(message) == (expected or message)


RECORDED = json.loads(Path(__file__).with_name("immutable.json").read_text())


def answer(case: dict[str, Any]) -> GitsyncError:
    status = {"message": case["message"], "reason": "Invalid", "details": {"causes": case["causes"]}}
    return failure(422, json.dumps(status).encode(), {}, "PATCH /x")


def name(case: dict[str, Any]) -> str:
    return f"{case['kind']}-{case['causes'][0]['field']}"


@pytest.mark.parametrize("case", RECORDED["immutable"], ids=name)
def test_a_change_of_an_immutable_field_is_recognized(case):
    assert immutable_fields(answer(case)) == case["causes"][0]["field"]


@pytest.mark.parametrize("case", RECORDED["immutable"], ids=name)
def test_it_is_recognized_without_causes_too(case):
    assert immutable_fields(answer({**case, "causes": []}))


@pytest.mark.parametrize("case", RECORDED["other"], ids=name)
def test_another_invalid_field_is_no_reason_to_replace(case):
    assert not immutable_fields(answer(case))
    assert not immutable_fields(answer({**case, "causes": []}))


FIXED = Cause("FieldValueInvalid", 'Invalid value: {"a":"b"}: field is immutable', "spec.selector")


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        pytest.param(
            Rejected("", code=422, refusal=Refusal(causes=(FIXED, FIXED))), "spec.selector", id="one field twice"
        ),
        pytest.param(
            Rejected(
                "", code=422, refusal=Refusal(causes=(FIXED, Cause("FieldValueRequired", "Required value", "spec.x")))
            ),
            "",
            id="an object that is invalid as well could not be created again",
        ),
        pytest.param(
            Rejected(
                "",
                code=422,
                refusal=Refusal(causes=(Cause("FieldValueInvalid", 'Invalid value: "immutable": no', "a"),)),
            ),
            "",
            id="a value that contains the word",
        ),
        pytest.param(
            Rejected(
                "",
                code=422,
                refusal=Refusal(causes=(Cause("FieldValueInvalid", 'Invalid value: "a": no\nis immutable', "a"),)),
            ),
            "",
            id="a further line that contains the word",
        ),
        pytest.param(
            Rejected(
                "", code=422, refusal=Refusal(causes=(Cause("FieldValueRequired", "Required value: immutable", "a"),))
            ),
            "",
            id="another type of error",
        ),
        pytest.param(Rejected('Secret "immutable" is invalid: data: no', code=422), "", id="an object of that name"),
        pytest.param(Rejected("field is immutable", code=403), "", id="forbidden by RBAC or admission"),
        pytest.param(Conflict("field is immutable"), "", id="conflict"),
    ],
)
def test_what_counts_is_the_type_and_the_text_of_every_cause(error, fields):
    assert immutable_fields(error) == fields
