"""Canonical JSON is that of RFC 8785."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pytest

from gitsync.agents.contract.canonical import canonical, digest_of
from gitsync.errors import InvalidInput


def test_the_example_of_the_rfc() -> None:
    # RFC 8785, section 3.2.2 and its result in 3.2.3
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(value) == expected
    assert digest_of(value) == f"sha256:{hashlib.sha256(expected.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_those_of_ecmascript(bits: str, text: str) -> None:
    assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


def test_names_are_sorted_by_utf_16() -> None:
    # RFC 8785, section 3.2.3: the letter beyond the basic plane is before U+FB33
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(__import__("json").loads(canonical(dict.fromkeys(names, 0)))) == [
        "\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33",
    ]  # fmt: skip


def test_integers_are_doubles() -> None:
    assert canonical([1, 1.0, 10**20, 2**53 + 1]) == "[1,1,100000000000000000000,9007199254740992]"


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**400,
        "\ud800",
        {"\udc00": 1},
        pytest.param(object(), id="an object"),
        _nested(101),
    ],
    ids=repr,
)
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        canonical(value)
