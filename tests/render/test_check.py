from __future__ import annotations

import pytest

from gitsync.render.check import faults


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": 1}}, "not a valid object name"),
        ({"kind": "ConfigMap", "metadata": {"name": "../x"}}, "not a valid object name"),
        ({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": 1, "y": True}}}, "x is a number, y is a flag"),
        (
            {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": {}}},
            "data takes strings only: k is a mapping",
        ),
        ({"kind": "Secret", "metadata": {"name": "a"}, "stringData": [1]}, "it is a list"),
    ],
)
def test_what_no_api_server_takes_is_said_with_a_cure(manifest, says):
    (fault,) = faults(manifest, "a.yaml")

    assert says in str(fault)
    assert "quote" in str(fault)


def test_a_good_object_has_no_faults():
    assert faults({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}}) == ()
