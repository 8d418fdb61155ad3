from __future__ import annotations

import copy

import pytest

from gitsync.sandbox.crd import strategy
from gitsync.sandbox.errors import ApiError
from tests.sandbox.crd.factories import definition, spec_schema, widget
from tests.sandbox.kinds.recordings import Allocator

NESTED = {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}}


def test_defaults_fill_objects_that_are_there() -> None:
    of = strategy(definition(spec_schema(mode={"type": "string", "default": "Fast"}, nested=NESTED)), "v1")
    given = widget(spec={"nested": {}})
    assert of.default(given)["spec"] == {"nested": {"on": True}, "mode": "Fast"}
    assert given["spec"] == {"nested": {}}
    assert "spec" not in of.default(widget())


def test_an_equal_schema_is_compiled_once() -> None:
    schema = spec_schema(count={"type": "integer", "minimum": -(10**30)})
    assert strategy(definition(schema), "v1").root is strategy(definition(copy.deepcopy(schema)), "v1").root
    assert strategy(definition(schema), "v1").root is not strategy(definition(spec_schema()), "v1").root


def test_a_null_that_may_not_be_becomes_the_default_or_goes() -> None:
    schema = spec_schema(
        a={"type": "string", "default": "x"}, b={"type": "string"}, c={"type": "string", "nullable": True}
    )
    of = strategy(definition(schema), "v1")
    assert of.default(widget(spec={"a": None, "b": None, "c": None}))["spec"] == {"a": "x", "c": None}


def test_what_the_schema_does_not_know_is_told_and_pruned() -> None:
    schema = spec_schema(
        known={"type": "string"},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        items={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
    )
    of = strategy(definition(schema), "v1")
    obj = widget(spec={"known": "x", "odd": 1, "free": {"any": 1}, "items": [{"a": "b", "z": 1}]}, extra=1)
    assert of.unknown_fields(obj) == ["extra", "spec.items[0].z", "spec.odd"]  # sorted
    assert of.prune(obj) == widget(spec={"known": "x", "free": {"any": 1}, "items": [{"a": "b"}]})


def test_the_status_is_written_apart_where_there_is_a_subresource() -> None:
    of = strategy(definition(subresources={"status": {}}), "v1")
    old = widget(spec={"a": 1}, status={"phase": "Old"})
    new = widget(spec={"a": 2}, status={"phase": "New"})
    new["metadata"] = {**new["metadata"], "labels": {"a": "b"}}
    through_main = of.prepare(new, old, "", Allocator())
    assert (through_main["spec"], through_main["status"]) == ({"a": 2}, {"phase": "Old"})
    through_status = of.prepare(new, old, "status", Allocator())
    assert through_status == {**old, "status": {"phase": "New"}}
    assert "status" not in of.prepare(new, None, "", Allocator())


def test_without_a_subresource_the_status_is_a_member_like_any_other() -> None:
    of = strategy(definition(), "v1")
    assert not of.has_status
    obj = widget(status={"phase": "Kept"})
    assert of.prepare(obj, None, "", Allocator()) == obj


def test_labels_must_be_text() -> None:
    obj = widget()
    obj["metadata"] = {**obj["metadata"], "labels": {"a": 1}}
    with pytest.raises(
        ApiError, match=r'^\(400, .*Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number'
    ):
        strategy(definition(), "v1").default(obj)


def test_the_name_must_be_a_subdomain_when_it_is_new() -> None:
    obj = widget()
    obj["metadata"] = {**obj["metadata"], "name": "Big"}
    of = strategy(definition(), "v1")
    assert [cause.field for cause in of.validate(obj, None, "")] == ["metadata.name"]
    assert of.validate(obj, obj, "") == []
