"""CRDs, times, JSON Pointers, CEL and defaults."""

from __future__ import annotations

import pytest

from gitsync.kube import cel
from gitsync.kube.kinds import defined_kind, is_established, served_versions
from gitsync.kube.openapi import default_limits, encode_texts
from gitsync.kube.times import seconds_of, timestamp
from gitsync.objects.manifest import escaped_name, pointer_parts
from gitsync.objects.ref import GroupKind

WIDGETS = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget"},
        "versions": [{"name": "v1", "served": True}, {"name": "v1beta1", "served": False}],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}


def test_a_crd_tells_its_kind_versions_and_state():
    assert defined_kind(WIDGETS) == GroupKind("example.com", "Widget")
    assert served_versions(WIDGETS) == ("v1",)
    assert is_established(WIDGETS)
    assert not is_established({**WIDGETS, "status": {}})
    assert defined_kind({}) == GroupKind("", "")


def test_times_are_rfc_3339_in_utc():
    assert timestamp(seconds_of("2026-01-01T02:00:00+02:00")) == "2026-01-01T00:00:00Z"
    assert seconds_of(None) == seconds_of("") == 0.0


@pytest.mark.parametrize("name", ["a", "a/b", "a~b", "~1", "~0/"])
def test_a_name_survives_a_json_pointer(name):
    assert pointer_parts(f"/x/{escaped_name(name)}") == ("x", name)


def test_an_expression_without_a_value_does_not_hold():
    assert cel.holds("object.a == 1", {"a": 1})
    assert not cel.holds("object.a == 1", {})
    assert not cel.holds("object.a", {"a": 1})
    with pytest.raises(ValueError, match="Syntax error"):
        cel.holds("object.", {})


def test_a_limit_range_fills_requests_from_limits():
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}, "default": {"memory": "2Gi"}}
    filled = default_limits(item)
    assert filled["default"] == {"cpu": "2", "memory": "2Gi"}
    assert filled["defaultRequest"] == {"cpu": "2", "memory": "2Gi"}
    assert default_limits({"type": "Pod", "max": {"cpu": "2"}}) == {"type": "Pod", "max": {"cpu": "2"}}


def test_string_data_is_encoded():
    assert encode_texts({"a": "b", "empty": None}) == {"a": "Yg==", "empty": ""}
