"""Messages of the API server without values as Go prints them."""

from __future__ import annotations

import pytest

from gitsync.kube.messages import readable


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:1}",
            ".data.a: must be a string, not 1: quote the value",
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
