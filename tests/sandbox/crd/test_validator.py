from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.crd import strategy
from tests.sandbox.crd.factories import definition, spec_schema, widget


def causes_of(schema: dict[str, Any], spec: Any) -> list[tuple[str, str, str]]:
    found = strategy(definition(schema), "v1").validate(widget(spec=spec), None, "")
    return [(cause.reason.removeprefix("FieldValue"), cause.field, cause.message) for cause in found]


CASES = [
    pytest.param(
        {"type": "integer", "minimum": 1},
        0,
        ("Invalid", "spec.v", "Invalid value: 0: spec.v in body should be greater than or equal to 1"),
        id="minimum",
    ),
    pytest.param(
        {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
        3,
        ("Invalid", "spec.v", "Invalid value: 3: spec.v in body should be less than 3"),
        id="exclusive maximum",
    ),
    pytest.param(
        {"type": "number", "multipleOf": 0.1},
        0.25,
        ("Invalid", "spec.v", "Invalid value: 0.25: spec.v in body should be a multiple of 0.1"),
        id="multiple",
    ),
    pytest.param(
        {"type": "integer"},
        "three",
        ("TypeInvalid", "spec.v", 'Invalid value: "string": spec.v in body must be of type integer: "string"'),
        id="type",
    ),
    pytest.param(
        {"x-kubernetes-int-or-string": True},
        True,
        ("TypeInvalid", "spec.v", 'Invalid value: "boolean": spec.v in body must be of type integer,string: "boolean"'),
        id="neither number nor string",
    ),
    pytest.param(
        {"type": "string", "enum": ["Fast", "Slow"]},
        "Odd",
        ("NotSupported", "spec.v", 'Unsupported value: "Odd": supported values: "Fast", "Slow"'),
        id="enum",
    ),
    pytest.param(
        {"type": "string", "pattern": "^[a-z]+$"},
        "A1",
        ("Invalid", "spec.v", "Invalid value: \"A1\": spec.v in body should match '^[a-z]+$'"),
        id="pattern",
    ),
    pytest.param(
        {"type": "string", "minLength": 2},
        "a",
        ("Invalid", "spec.v", 'Invalid value: "a": spec.v in body should be at least 2 chars long'),
        id="too short",
    ),
    pytest.param(
        {"type": "string", "maxLength": 2},
        "abc",
        ("TooLong", "spec.v", "Too long: may not be more than 2 bytes"),
        id="too long",
    ),
    pytest.param(
        {"type": "string", "format": "date-time"},
        "yesterday",
        ("TypeInvalid", "spec.v", 'Invalid value: "yesterday": spec.v in body must be of type date-time: "yesterday"'),
        id="format",
    ),
    pytest.param(
        {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        ["a", "b"],
        ("TooMany", "spec.v", "Too many: 2: must have at most 1 items"),
        id="too many",
    ),
    pytest.param(
        {"type": "array", "items": {"type": "string"}},
        ["a", 1],
        ("TypeInvalid", "spec.v[1]", 'Invalid value: "integer": spec.v[1] in body must be of type string: "integer"'),
        id="item",
    ),
    pytest.param(
        {"type": "object", "required": ["a"]},
        {},
        ("Required", "spec.v.a", "Required value"),
        id="required",
    ),
    pytest.param(
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"k": "x"},
        ("TypeInvalid", "spec.v.k", 'Invalid value: "string": spec.v.k in body must be of type integer: "string"'),
        id="value of a map",
    ),
    pytest.param(
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "a"],
        ("Duplicate", "spec.v[1]", 'Duplicate value: "a"'),
        id="set",
    ),
    pytest.param(
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        [{"k": "a"}, {"k": "a"}],
        ("Duplicate", "spec.v[1]", 'Duplicate value: {"k":"a"}'),
        id="map",
    ),
]


@pytest.mark.parametrize(("schema", "value", "cause"), CASES)
def test_a_wrong_value_is_told_in_the_servers_words(schema: Any, value: Any, cause: Any) -> None:
    assert causes_of(spec_schema(v=schema), {"v": value}) == [cause]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"type": "string", "nullable": True}, None, id="null where it may be"),
        pytest.param({"type": "number"}, 3, id="integer as number"),
        pytest.param({"type": "string", "format": "color-of-the-day"}, "x", id="unknown format"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            5,
            id="int-or-string",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": [1, {"b": None}]}, id="free form"
        ),
    ],
)
def test_a_fitting_value_passes(schema: Any, value: Any) -> None:
    assert causes_of(spec_schema(v=schema), {"v": value}) == []


@pytest.mark.parametrize(
    ("combination", "text"),
    [
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, '"spec" must validate at least one schema (anyOf)'),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            '"spec" must validate one and only one schema (oneOf). Found none valid',
        ),
        ({"not": {"required": ["c"]}}, '"spec" must not validate the schema (not)'),
    ],
)
def test_a_combination_that_fails_has_no_field(combination: Any, text: str) -> None:
    schema = spec_schema(a={"type": "string"}, b={"type": "string"}, c={"type": "string"})
    schema["properties"]["spec"].update(combination)
    assert ("Invalid", "<nil>", f'Invalid value: "": {text}') in causes_of(schema, {"c": "x"})


def test_an_embedded_resource_needs_its_type() -> None:
    inner = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert causes_of(spec_schema(v=inner), {"v": {"kind": "Pod", "metadata": {"name": "p"}}}) == [
        ("Required", "spec.v.apiVersion", "Required value: must not be empty")
    ]
    assert causes_of(spec_schema(v=inner), {"v": {"apiVersion": "v1", "kind": "Pod", "any": 1}}) == []


NOT_INTEGER = '"number": spec.v in body must be of type integer: "number"'
NOT_INT32 = '"float64": spec.v in body must be of type int32: "float64"'


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        pytest.param({"type": "integer"}, 2**63 - 1, [], id="greatest integer"),
        pytest.param({"type": "integer"}, 1e3, [], id="fraction of zero"),
        pytest.param({"type": "integer"}, float(2**53), [NOT_INTEGER], id="float that may be rounded"),
        pytest.param(
            {"type": "integer"},
            2**63,
            [NOT_INTEGER, '"": Checked value must be of type integer (default format) in spec.v'],
            id="above all integers",
        ),
        pytest.param(
            {"type": "integer"},
            -(2**63) - 1,
            [NOT_INTEGER, '"": Checked value must be of type integer (default format) in spec.v'],
            id="below all integers",
        ),
        pytest.param(
            {"type": "integer", "format": "int32"},
            2**31,
            ['"": Checked value must be of type integer with format int32 in spec.v'],
            id="above int32",
        ),
        pytest.param(
            {"type": "integer", "format": "int32"},
            1.5,
            [NOT_INT32, '"": Checked value must be of type integer with format int32 in spec.v'],
            id="fraction with a format",
        ),
        pytest.param(
            {"type": "integer", "format": "int32"},
            True,
            ['"": spec.v in body must be of type int32: ""'],
            id="boolean with a format",
        ),
        pytest.param(
            {"type": "integer", "maximum": 2**63 - 1},
            1,
            ['"": Maximum boundary value must be of type integer (default format) in spec.v'],
            id="maximum that a float rounds up",
        ),
        pytest.param(
            {"type": "integer", "minimum": -(2**64)},
            1,
            ['"": Minimum boundary value must be of type integer (default format) in spec.v'],
            id="minimum below all integers",
        ),
        pytest.param(
            {"type": "integer", "maximum": 1.5},
            2,
            [
                '"": Maximum boundary value must be of type integer (default format) in spec.v',
                "2: spec.v in body should be less than or equal to 1.5",
            ],
            id="maximum with a fraction",
        ),
        pytest.param(
            {"type": "integer", "multipleOf": 0.5},
            1,
            ['"": MultipleOf value must be of type integer (default format) in spec.v'],
            id="factor with a fraction",
        ),
        pytest.param({"type": "number", "maximum": 1e30}, 2**63, [], id="numbers have no bounds"),
        pytest.param(
            {"type": "number", "format": "float"},
            1e300,
            ['"": Checked value must be of type number with format float in spec.v'],
            id="above float",
        ),
        pytest.param({"type": "string", "format": "date"}, [1], [], id="list for a text with a format"),
    ],
)
def test_numbers_are_held_to_the_types_of_go(schema: dict[str, Any], value: Any, messages: list[str]) -> None:
    causes = causes_of(spec_schema(v=schema), {"v": value})
    assert [message.removeprefix("Invalid value: ") for _, _, message in causes] == messages
