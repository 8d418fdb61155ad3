from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.crd import strategy
from tests.sandbox.crd.factories import definition, spec_schema, widget

LIMITS = {"rule": "self.min <= self.max", "message": "min must not exceed max"}
KIND = {
    "rule": "!has(oldSelf.kind) || self.kind == oldSelf.kind",
    "messageExpression": "'kind was ' + oldSelf.kind",
    "reason": "FieldValueForbidden",
    "fieldPath": ".kind",
}


def causes_of(schema: dict[str, Any], spec: Any, old: Any = None) -> list[tuple[str, str, str]]:
    of = strategy(definition(schema), "v1")
    before = None if old is None else widget(spec=old)
    found = of.validate(widget(spec=spec), before, "")
    return [(cause.reason.removeprefix("FieldValue"), cause.field, cause.message) for cause in found]


def with_rules(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    schema = spec_schema(**properties)
    schema["properties"]["spec"]["x-kubernetes-validations"] = list(rules)
    return schema


NUMBERS = {"min": {"type": "integer"}, "max": {"type": "integer"}, "kind": {"type": "string"}}


def test_a_rule_of_an_object_shows_no_value() -> None:
    schema = with_rules(LIMITS, **NUMBERS)
    assert causes_of(schema, {"min": 5, "max": 3}) == [("Invalid", "spec", "Invalid value: min must not exceed max")]
    assert causes_of(schema, {"min": 1, "max": 3}) == []


def test_a_rule_about_a_change_runs_on_updates_only() -> None:
    schema = with_rules(KIND, **NUMBERS)
    assert causes_of(schema, {"kind": "b"}) == []
    assert causes_of(schema, {"kind": "b"}, {"kind": "a"}) == [("Forbidden", "spec.kind", "Forbidden: kind was a")]


def test_a_rule_of_a_text_shows_it_and_follows_those_outside() -> None:
    once = {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "once is immutable"}],
    }
    schema = with_rules(LIMITS, once=once, **NUMBERS)
    found = causes_of(schema, {"min": 4, "max": 3, "once": "y"}, {"min": 1, "max": 3, "once": "x"})
    assert found == [
        ("Invalid", "spec", "Invalid value: min must not exceed max"),
        ("Invalid", "spec.once", 'Invalid value: "y": once is immutable'),
    ]


def test_rules_wait_until_the_schema_fits() -> None:
    schema = with_rules({"rule": "self.min > 100"}, **NUMBERS)
    assert [reason for reason, _, _ in causes_of(schema, {"min": "x"})] == ["TypeInvalid", "Invalid"]


@pytest.mark.parametrize(
    ("rule", "spec", "message"),
    [
        ({"rule": "self.min > 3"}, {"min": 1}, "Invalid value: failed rule: self.min > 3"),
        (
            {"rule": "self.min > 3", "reason": "FieldValueRequired"},
            {"min": 1},
            "Required value: failed rule: self.min > 3",
        ),
        (
            {"rule": "self.max > 3", "message": "needs max"},
            {"min": 1},
            'Invalid value: "object": no such key: max evaluating rule: needs max',
        ),
        ({"rule": "false", "messageExpression": "self.none", "message": "fallback"}, {}, "Invalid value: fallback"),
    ],
)
def test_the_message_of_a_rule(rule: dict[str, Any], spec: Any, message: str) -> None:
    assert [text for _, _, text in causes_of(with_rules(rule, **NUMBERS), spec)] == [message]


def test_an_optional_old_value_is_none_on_create() -> None:
    rule = {"rule": "oldSelf.hasValue() || self.kind == 'new'", "optionalOldSelf": True}
    schema = with_rules(rule, **NUMBERS)
    assert causes_of(schema, {"kind": "new"}) == []
    assert len(causes_of(schema, {"kind": "other"})) == 1
    assert causes_of(schema, {"kind": "other"}, {"kind": "x"}) == []


def test_items_of_keyed_lists_have_an_old_value() -> None:
    items = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "may not shrink"}],
        },
    }
    schema = spec_schema(items=items)
    old = {"items": [{"name": "a", "size": 2}]}
    new = {"items": [{"name": "b", "size": 1}, {"name": "a", "size": 1}]}
    assert [(field, text) for _, field, text in causes_of(schema, new, old)] == [
        ("spec.items[1]", "Invalid value: may not shrink")
    ]


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("quantity(self).isLessThan(quantity('1Gi'))", "512Mi", True),
        ("quantity(self).compareTo(quantity('100Gi')) < 0", "20Gi", True),
        ("isQuantity(self)", "lots", False),
        ("self.find('[0-9]+') == '12'", "a12", True),
        ("isURL(self)", "https://example.com", True),
        ("isIP(self)", "10.0.0.1", True),
        ("!format.uuid().validate(self).hasValue()", "123e4567-e89b-12d3-a456-426614174000", True),
        ("!format.dns1123Label().validate(string(self)).hasValue()", "not a label", False),
        ("size(format.date().validate(self).value()) == 1", "today", True),
        ("quantity('1').add(quantity(self)) == quantity('2')", "1000m", True),
        ("[1, 3, 2].isSorted()", "", False),
        ("[1, 3].sum() == 4 && [1, 3].max() == 3", "", True),
        ("self.matches('^a+$')", "aab", False),
        ("self.lowerAscii() == self", "abc", True),
        ("!format.dns1123Label().validate(self).hasValue()", "web", True),
        ("!format.dns1123Label().validate(self).hasValue()", "Web", False),
        ("!format.dns1035LabelPrefix().validate(self).hasValue()", "web-", True),
        ("format.dns1123Label().validate(self).orValue(['fine'])[0].contains('dots')", "a.b", True),
        ("!format.named('labelValue').value().validate(self).hasValue()", "a_b", True),
        ("format.named(self).hasValue()", "none", False),
        ("format.uuid().validate(self).value() == ['does not match the UUID format']", "1", True),
        ("!format.datetime().validate(self).hasValue()", "2026-11-26T13:00:00Z", True),
        ("!format.byte().validate(self).hasValue() || self == '.validate('", "a", False),
        ("!format.uri().validate(self).hasValue()", "https://example.com/a", True),
    ],
)
def test_the_libraries_of_kubernetes_are_there(rule: str, value: str, holds: bool) -> None:
    schema = spec_schema(v={"type": "string", "x-kubernetes-validations": [{"rule": rule}]})
    assert (causes_of(schema, {"v": value}) == []) is holds


def test_names_that_cel_cannot_spell_are_escaped() -> None:
    rules = ({"rule": "self.a__dash__b == 1"}, {"rule": "!has(self.__namespace__) || self.__namespace__ == 'x'"})
    schema = with_rules(*rules, **{"namespace": {"type": "string"}, "a-b": {"type": "integer"}})
    assert causes_of(schema, {"namespace": "x", "a-b": 1}) == []
    assert len(causes_of(schema, {"namespace": "y", "a-b": 2})) == 2


def test_bytes_are_decoded_for_rules() -> None:
    schema = spec_schema(
        v={"type": "string", "format": "byte", "x-kubernetes-validations": [{"rule": "self == b'hi'"}]}
    )
    assert causes_of(schema, {"v": "aGk="}) == []
