"""Reading bodies: duplicates, YAML as the API server reads it, and limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.sandbox.http.decoding import parse_yaml
from gitsync.sandbox.schema.json_text import MalformedText, parse_json


def test_json_duplicates_are_named_by_path() -> None:
    value, duplicates = parse_json(b'{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 1}]}')
    assert value == {"a": {"b": 2}, "c": [{"d": 1}]}
    assert sorted(duplicates) == ["a.b", "c[0].d"]


@pytest.mark.parametrize("text", ['{"a":1,"b":[1,2]}', ' {"a": "\\u003c", "n": 1e3} ', '{"a":"ä"}'])
def test_json_without_duplicates_has_none(text: str) -> None:
    assert parse_json(text.encode())[1] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "unexpected end of JSON input"),
        ('{"a":1}x', "invalid character 'x' after top-level value"),
        ("{a}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("[" * 100_000, "exceeded max depth"),
    ],
)
def test_broken_json_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(MalformedText, match=message.replace("'", ".").replace("{", ".")):
        parse_json(text.encode())


def test_yaml_scalars_are_those_of_the_api_server() -> None:
    text = b"a: y\nb: no\nc: 2024-01-02\nd: 1:30\ne: 0755\nf: '1'\n5: x\ng: 1e3\nh: ~\n"
    assert parse_yaml(text)[0] == {
        "a": True,
        "b": False,
        "c": "2024-01-02",
        "d": "1:30",
        "e": 493,
        "f": "1",
        "5": "x",
        "g": 1000,
        "h": None,
    }


NAMES = st.sampled_from(['"a"', '"b"', '":a"', '" :"', '"\\u0022:"', '"\\":"', '"\\\\"'])
GAPS = st.sampled_from(["", " ", "\n "])


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw JSON with duplicate keys, quotes, colons and white space anywhere."""
    if not depth or draw(st.booleans()):
        return draw(NAMES)
    if draw(st.booleans()):
        return f"[{','.join(draw(st.lists(texts(depth - 1), max_size=2)))}]"
    members = draw(st.lists(st.tuples(NAMES, GAPS, GAPS, texts(depth - 1)), max_size=3))
    return "{" + ",".join(f"{key}{before}:{after}{value}" for key, before, after, value in members) + "}"


def counted(value: object) -> int:
    """Return how many members the objects in a value have, as lists of pairs or maps."""
    if isinstance(value, dict):
        return len(value) + sum(map(counted, value.values()))
    if isinstance(value, tuple):
        return len(value) + sum(counted(member) for _, member in value)
    return sum(map(counted, value)) if isinstance(value, list) else 0


@given(texts())
def test_no_duplicate_is_missed(text: str) -> None:
    value, duplicates = parse_json(text.encode())
    has_lost_one = counted(json.loads(text, object_pairs_hook=tuple)) > counted(value)
    assert bool(duplicates) == has_lost_one


def test_yaml_duplicates_are_named_by_line() -> None:
    value, duplicates = parse_yaml(b"a: 1\nb:\n  c: 1\n  c: 2\n")
    assert value == {"a": 1, "b": {"c": 2}}
    assert duplicates == ['line 4: key "c" already set in map']


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 30_000,
        b"- " * 30_000,
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 10)) for n in range(8)),
        b"a: *none",
        b"a: [",
        b"a: .inf",
        b"\xff\xfe\x00",
    ],
    ids=["deep flow", "deep block", "alias bomb", "unknown alias", "open list", "infinity", "not text"],
)
def test_hostile_or_broken_yaml_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedText):
        parse_yaml(text)
