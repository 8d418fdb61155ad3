from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.sandbox.crd.definition import validate_definition
from tests.sandbox.crd.factories import definition, spec_schema

ROOT = "spec.validation.openAPIV3Schema"


def changed(**spec: Any) -> dict[str, Any]:
    crd = definition()
    return {**crd, "spec": {**crd["spec"], **spec}}


def causes_of(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in validate_definition(crd, old)]


def test_a_good_definition_has_no_causes() -> None:
    assert causes_of(definition()) == []
    assert causes_of(definition(spec_schema(a={"type": "string", "default": "x"}))) == []


# found in public folders, and accepted by a kube-apiserver 1.36.2
@pytest.mark.parametrize(
    "member",
    [
        {"type": "string", "x-kubernetes-int-or-string": True},
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "message": "is empty\n"}]},
    ],
    ids=["a type beside int-or-string", "a message that ends with a line break"],
)
def test_what_the_api_server_accepts_has_no_causes(member: dict[str, Any]) -> None:
    assert causes_of(definition(spec_schema(a=member))) == []


@pytest.mark.parametrize(
    ("crd", "cause"),
    [
        (
            changed(group="other.com"),
            ("metadata.name", 'Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group'),
        ),
        (
            changed(scope="Galaxy"),
            ("spec.scope", 'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
        ),
        (
            changed(versions=[]),
            ("spec.versions", "Invalid value: []: must have exactly one version marked as storage version"),
        ),
    ],
)
def test_what_a_definition_says_of_itself_is_checked(crd: dict[str, Any], cause: tuple[str, str]) -> None:
    assert cause in causes_of(crd)


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        ({}, f"{ROOT}.type", "Required value: must not be empty at the root"),
        ({"type": "string"}, f"{ROOT}.type", 'Invalid value: "string": must be object at the root'),
        (
            spec_schema(a={}),
            f"{ROOT}.properties[spec].properties[a].type",
            "Required value: must not be empty for specified object fields",
        ),
        (
            spec_schema(a={"type": "array"}),
            f"{ROOT}.properties[spec].properties[a].items",
            "Required value: must be specified",
        ),
        (
            spec_schema(a={"type": "integer", "default": "x"}),
            f"{ROOT}.properties[spec].properties[a].default",
            f'Invalid value: "string": {ROOT}.properties[spec].properties[a].default in body must be of '
            'type integer: "string"',
        ),
        (
            spec_schema(a={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
            f"{ROOT}.properties[spec].properties[a].x-kubernetes-list-map-keys",
            "Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            spec_schema(
                a={
                    "type": "object",
                    "properties": {"b": {"type": "string"}},
                    "additionalProperties": {"type": "string"},
                }
            ),
            f"{ROOT}.properties[spec].properties[a].additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: Any, field: str, message: str) -> None:
    crd = definition()
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    assert (field, message) in causes_of(crd)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing closing ): `(`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("\\q", "invalid escape sequence: `\\q`"),
    ],
)
def test_a_pattern_is_refused_in_the_words_of_the_server(pattern: str, why: str) -> None:
    causes = causes_of(definition(spec_schema(a={"type": "string", "pattern": pattern})))
    assert [text.partition("isn't: ")[2] for _, text in causes] == [f"error parsing regexp: {why}"]


def test_a_rule_that_does_not_compile_is_refused() -> None:
    rules = [{"rule": "self.a >"}, {"rule": "other == 1"}, {"rule": ""}]
    schema = spec_schema(a={"type": "string", "x-kubernetes-validations": rules})
    fields = [field for field, _ in causes_of(definition(schema))]
    prefix = f"{ROOT}.properties[spec].properties[a].x-kubernetes-validations"
    assert fields == [f"{prefix}[{index}].rule" for index in range(3)]


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("self.a == 'self.nope'", True),
        ("self.a.startsWith('x')", True),
        ("self.map.anything == 'x'", True),
        ("has(self.nope)", False),
        ("self.a == '' || oldSelf.nope == ''", False),
        ("self.inner.nope == ''", False),
        ("self.list.all(item, item.whatever == self.a)", True),
    ],
)
def test_a_rule_names_only_members_that_there_are(rule: str, known: bool) -> None:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"b": text}}
    free = {"type": "object", "additionalProperties": text}
    items = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    schema = spec_schema(a=text, inner=inner, map=free, list=items)
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": rule}]
    causes = causes_of(definition(schema))
    assert (causes == []) is known
    assert known or "undefined field 'nope'" in causes[0][1]


def test_what_others_rely_on_may_not_change() -> None:
    old = definition()
    old["status"] = {
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    }
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"
    new["spec"]["versions"][0]["name"] = "v2"
    fields = [field for field, _ in causes_of(new, old)]
    assert fields == ["spec.scope", "spec.names.kind", "status.storedVersions[0]"]
