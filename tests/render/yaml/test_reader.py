from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import locate, locations, read_all
from gitsync.render.yaml.scalars import Date


def value_of(scalar: str) -> Any:
    return read_all(f"value: {scalar}\n")[0]["value"]


@pytest.mark.parametrize(
    "word", ["yes", "No", "on", "OFF", "y", "n", "TRUe", "nUll", "1:30", "1.2.3", "_1", "=", "08x"]
)
def test_words_of_yaml_1_1_are_texts(word: str) -> None:
    assert value_of(word) == word


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("0755", 493),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0b11", 3),
        ("0b-1", -1),
        ("0o-7", -7),
        ("1_000", 1000),
        ("+12", 12),
        ("08", 8),
        ("1e3", 1000),
        (".5", 0.5),
        (".1_0", 0.1),
        ("._5", "._5"),
        ("1.", 1),
        ("-0.0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("12345678901234567890.5", 12345678901234567000),
        ("1e400", "1e400"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_numbers_are_what_kustomize_makes_of_them(scalar: str, value: Any) -> None:
    read = value_of(scalar)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("2001-01-01", "2001-01-01T00:00:00Z"),
        ("2001-1-2 3:4:5.600", "2001-01-02T03:04:05.6Z"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("2001-01-01t00:00:00-05:30", "2001-01-01T00:00:00-05:30"),
        ("2001-01-01T00:00:00+00:00", "2001-01-01T00:00:00Z"),
        ("2001-01-01T00:00:00", "2001-01-01T00:00:00"),
        ("2001-01-01 00:00:00 Z", "2001-01-01 00:00:00 Z"),
        ("2001-02-29", "2001-02-29"),
        ("2000-02-29", "2000-02-29T00:00:00Z"),
        ("2001-13-01", "2001-13-01"),
        ("'2001-01-01'", "2001-01-01"),
    ],
)
def test_dates_become_rfc_3339_texts(scalar: str, value: str) -> None:
    assert value_of(scalar) == value


def test_a_date_knows_how_it_was_written() -> None:
    date = copy.deepcopy(value_of("2001-1-2 # day"))
    assert isinstance(date, Date)
    assert (date, date.written) == ("2001-01-02T00:00:00Z", "2001-1-2")


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("!!str 12", "12"),
        ('!!int "12"', 12),
        ("!!float 3", 3),
        ("!!bool true", True),
        ('!!null ""', None),
        ("!!binary aGVsbG8=", "hello"),
        ('!!timestamp "2001-01-01"', "2001-01-01T00:00:00Z"),
        ("! 12", 12),
        ('! "12"', "12"),
        ("!!map {a: b}", {"a": "b"}),
        ("!!seq [a]", ["a"]),
    ],
)
def test_core_tags_are_followed(scalar: str, value: Any) -> None:
    assert value_of(scalar) == value


@pytest.mark.parametrize(
    "scalar",
    [
        "!!python/object/apply:os.system [x]",
        "!!js/function 'x'",
        "!<tag:example.test,2026:x> {a: 1}",
        "!!set {a}",
        "!mine x",
    ],
)
def test_other_tags_are_refused_by_name(scalar: str) -> None:
    with pytest.raises(InvalidInput, match=r"file\.yaml:1: the tag .* cannot be used"):
        read_all(f"value: {scalar}\n", "file.yaml")


@pytest.mark.parametrize("scalar", ["*hidden", "!hidden", "!!hidden", "!hidden x", "!!int hidden"])
def test_a_password_that_nobody_quoted_is_not_repeated(scalar: str) -> None:
    with pytest.raises(InvalidInput, match=r"^f:3: ") as refused:
        read_all(f"kind: Secret\nstringData:\n  password: {scalar}\n", "f")
    assert "hidden" not in str(refused.value)


def test_an_empty_value_with_a_tag_is_not_repeated_in_a_patch_without_a_kind() -> None:
    with pytest.raises(InvalidInput, match=r"f:1: a value that begins with ! has a tag") as refused:
        read_all("- {op: add, path: /stringData/password, value: !hidden }\n", "f")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("scalar", [".inf", "-.Inf", "+.INF", ".nan", "!!int abc", "!!binary '%'"])
def test_what_json_cannot_hold_is_refused(scalar: str) -> None:
    with pytest.raises(InvalidInput, match=r"file\.yaml:2: "):
        read_all(f"a: 1\nvalue: {scalar}\n", "file.yaml")


def test_an_empty_value_in_brackets_is_an_empty_text() -> None:
    assert read_all("a: {b: , c}\nd: [2001-01-01T00:00:00Z, 2001-01-01]\n") == [
        {"a": {"b": "", "c": ""}, "d": ["2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"]}
    ]
    assert read_all("[1-2-3T1:2:3Z, 2001-1-1T1:2:3Z]") == [["1-2-3T1:2:3Z", "2001-1-1T1:2:3Z"]]


@pytest.mark.parametrize(
    ("block", "value"),
    [
        (">\n  a\n  b\n", "a b\n"),
        (">\n  a\n    b\n", "a\n\n  b\n"),
        (">\n  a\n    b\n    c\n  d\n", "a\n\n  b\n  c\nd\n"),
        (">-\n  a\n\n\n    b\n", "a\n\n\n\n  b"),
        (">+\n  a\n", "a\n\n\n"),
        (">2\n   a\n  b\n", " a\nb\n"),
        (">\n  a \n    b\n", "a \n  b\n"),
        ("|\n  a\n    b\n", "a\n  b\n"),
    ],
)
def test_folded_texts_grow_as_kustomize_makes_them_grow(block: str, value: str) -> None:
    assert value_of(block) == value


def test_documents_are_separated_and_empty_ones_dropped() -> None:
    text = "---\na: 1\n---\n---\n# nothing\n--- # named\nb: 2\n---\nnull\n---\n{}\n---\n[]\n---\n"
    assert read_all(text) == [{"a": 1}, {"b": 2}]
    assert read_all("") == read_all("\n# only a comment\n") == []


def test_a_block_text_keeps_its_end_before_a_separator() -> None:
    assert read_all("a: |+\n  x\n\n---\nb: |\n  y") == [{"a": "x\n\n"}, {"b": "y"}]


def test_json_is_read_as_yaml() -> None:
    assert read_all('{"a": [1, 2.5, "x\\u00e9\\n", null, true]}') == [{"a": [1, 2.5, "xé\n", None, True]}]


@pytest.mark.parametrize("separator", ["--- a: 1", "--- |", "---x"])
def test_a_separator_with_a_value_is_refused(separator: str) -> None:
    with pytest.raises(InvalidInput, match=r"f:2: .*does not separate documents"):
        read_all(f"a: 1\n{separator}\nb: 2\n", "f")


@pytest.mark.parametrize("hidden", ["...\nb: 1\n", "...\nb\n", "--- b", "--- {b: 1}"])
def test_a_document_that_kustomize_would_drop_is_refused(hidden: str) -> None:
    assert read_all("a: 1\n...\n") == read_all("a: 1\n---") == [{"a": 1}]
    with pytest.raises(InvalidInput, match=r"f:[23]: .* put '---' on a line before it"):
        read_all(f"a: 1\n{hidden}", "f")


def test_line_ends_and_byte_order_mark_make_no_difference() -> None:
    assert read_all(b"\xef\xbb\xbfa: |\r\n  x\r\n  y\r\n---\r\nb: 1\r\n") == [{"a": "x\ny\n"}, {"b": 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'b: 0\na: "\xff"\n', "f:2: byte 0xff is not UTF-8"),
        (b"\xff\xfea\x00", "f:1: the encoding is UTF-16"),
        (b"\xfe\xff\x00a", "f:1: the encoding is UTF-16"),
        (b'b: 0\n\na: "x\x00y"\n', r"f:3: the control character U\+0000 is not allowed"),
        (b"a: \x1b[31m\n", r"f:1: the control character U\+001B is not allowed"),
        (b"a:\n\tb: 1\n", "f:2: a tab indents this line"),
    ],
)
def test_bad_bytes_are_refused_with_their_line(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_all(data, "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a: "x\nb: 1\n', "f:1: a quoted text is not closed"),
        ("a: 1\nb: [1, 2\n", "f:3: a list in .* is not closed"),
        ("a: {b: 1\nc: 2\n", "f:2: a mapping in .* is not closed"),
        ("a: b: c\n", "f:1: a ': ' where no mapping can begin"),
        ("a: - b\n", "f:1: a '- ' where no list can begin"),
        ("a: @x\n", "f:1: a value cannot begin with the character @"),
        ("a:\n  b: 1\n c: 2\n", "f:3: the indentation does not match"),
        ("a: 1\nb\n", "f:3: a line has no ':' after its key"),
        ('a: "\\q"\n', "f:1: a backslash in double quotes begins no known escape"),
        ("a: !x!y z\n", "f:1: the tag has no known prefix"),
        ("a: *b\n", r"f:1: .* is an alias, and no anchor of that name precedes it"),
        ("%YAML 1.1\n---\na: 1\n", "f:2: no document can begin here"),
    ],
)
def test_syntax_errors_say_where_and_what(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_all(text, "f")


def test_a_line_counts_from_the_start_of_the_file() -> None:
    with pytest.raises(InvalidInput, match="f:6: "):
        read_all("a: 1\n---\nb: 1\n---\nc:\n  - @\n", "f")


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", 'a: 1\nb: 2\n"a": 3\n', "1: 1\nb: 2\n'1': 3\n"])
def test_a_duplicate_key_is_refused_with_both_lines(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"f:5: the key [a1] is a duplicate, line 3 has it already"):
        read_all("x: y\n---\n" + text, "f")


def test_duplicates_may_be_allowed_and_the_last_one_counts() -> None:
    assert read_all("a: 1\nb: 2\na: 3\n", limits=YamlLimits(duplicates=True)) == [{"a": 3, "b": 2}]
    assert locate("a: 1\nb: 2\na: 3\n", 0, ["a"]) == 3


def test_a_duplicate_of_a_key_that_comes_from_an_alias_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the key a is a duplicate"):
        read_all("- &a a\n- a: 1\n  *a : 2\n", "f")


def test_keys_are_plain_texts() -> None:
    document = read_all("y: 1\n2001-01-01: 2\n? >\n  a\n    b\n: 3\n")[0]
    assert {type(key) for key in document} == {str}
    assert document == {"y": 1, "2001-01-01": 2, "a\n\n  b\n": 3}
    assert read_all("{a: {? : 1, no: 2}}") == [{"a": {"": 1, "no": 2}}]


def test_keys_that_are_not_texts_are_read_at_the_top_and_refused_below() -> None:
    assert read_all("10: a\ntrue: b\n2001-01-01: c\n") == [{"10": "a", "true": "b", "2001-01-01": "c"}]
    for key in ("10", "true", "~", "1.5", "2001-01-01"):
        with pytest.raises(InvalidInput, match=rf"f:2: the key {key} is not a text; quote it"):
            read_all(f"a:\n  {key}: b\n", "f")
    for key in ("? [a]\n: b", "? {a: b}\n: c", "x: &x {a: b}\n*x : c"):
        with pytest.raises(InvalidInput, match=r"f:\d: "):
            read_all(key, "f")


def test_aliases_are_copies() -> None:
    document = read_all("a: &x {b: [1]}\nc: *x\nd: &y z\n*y : *y\n")[0]
    assert document == {"a": {"b": [1]}, "c": {"b": [1]}, "d": "z", "z": "z"}
    assert document["a"]["b"] is not document["c"]["b"]


def test_an_anchor_holds_for_its_document_and_until_the_next_of_its_name() -> None:
    assert read_all("a: &x 1\nb: &x 2\nc: *x\n") == [{"a": 1, "b": 2, "c": 2}]
    assert read_all("a: &x [&x 2, *x]\nb: *x\n") == [{"a": [2, 2], "b": 2}]
    with pytest.raises(InvalidInput, match="no anchor of that name precedes it"):
        read_all("a: &x 1\n---\nb: *x\n")


def test_a_merge_key_fills_in_what_is_missing() -> None:
    text = """
a: &a {p: 1, q: 1}
b: &b {p: 2, r: 2}
first: {<<: [*a, *b], p: 3}
second:
  <<: *b
  <<x: 1
third: {"<<": 1}
"""
    document = read_all(text)[0]
    assert document["first"] == {"p": 3, "q": 1, "r": 2}
    assert document["second"] == {"p": 2, "r": 2, "<<x": 1}
    assert document["third"] == {"<<": 1}


def test_the_tag_of_a_merge_key_may_be_written():
    (document,) = read_all("a: &a {p: 1}\nb:\n  !!merge <<: *a\n  q: 2\n")

    assert document["b"] == {"p": 1, "q": 2}


@pytest.mark.parametrize("merge", ["!!merge x: y", "<<: x", "<<: ~", "<<: [[]]", "<<: {b: 1}\n  <<: {c: 1}"])
def test_a_merge_key_without_mappings_is_refused(merge: str) -> None:
    with pytest.raises(InvalidInput, match=r"<<|merge"):
        read_all(f"a:\n  {merge}\n")


@pytest.mark.parametrize("part", ["[", "- ", "{a: ", "[{a: ", "? "])
def test_deep_nesting_is_refused_before_it_costs_anything(part: str) -> None:
    with pytest.raises(InvalidInput, match=r"f:1: .*nest"):
        read_all(part * 60_000, "f")


def test_nesting_is_allowed_up_to_the_limit() -> None:
    assert read_all("[" * 199 + "1" + "]" * 199)
    with pytest.raises(InvalidInput, match="limit of 200 levels"):
        read_all("[" * 201 + "]" * 201)


def test_aliases_cannot_nest_deeper_than_the_limit() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 250)]
    with pytest.raises(InvalidInput, match="aliases make the nesting deeper"):
        read_all("\n".join(lines))


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(InvalidInput, match=r"f:[56]: the aliases expand to more than the limit of 4194304 characters"):
        read_all("\n".join(lines), "f")


def test_aliases_of_a_long_text_are_refused_when_there_are_many() -> None:
    assert len(read_all(f"- &a {'x' * 100_000}\n" + "- *a\n" * 40)[0]) == 41
    with pytest.raises(InvalidInput, match=r"f:4[0-9]: the aliases expand"):
        read_all(f"- &a {'x' * 100_000}\n" + "- *a\n" * 50, "f")


def test_an_anchor_that_contains_itself_is_refused() -> None:
    for text in ("a: &x [*x]", "a: &x {b: *x}"):
        with pytest.raises(InvalidInput, match="the anchor &x contains itself"):
            read_all(text)


def test_a_text_over_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="f: the file has 11 bytes, more than the limit of 10"):
        read_all(b"a: 12345678", "f", limits=YamlLimits(bytes=10))


TEXT = """\
kind: A # one
---
---
kind: B
metadata: {name: x,
  labels: {a: b}}
spec:
- one
-   deep:
      - two
- &x {y: z}
- *x
"""


def test_locations_are_those_of_the_documents_that_are_returned() -> None:
    assert locations(TEXT, 0) == {(): 1, ("kind",): 1}
    assert locations(TEXT, 1) == {
        (): 4,
        ("kind",): 4,
        ("metadata",): 5,
        ("metadata", "name"): 5,
        ("metadata", "labels"): 6,
        ("metadata", "labels", "a"): 6,
        ("spec",): 7,
        ("spec", 0): 8,
        ("spec", 1): 9,
        ("spec", 1, "deep"): 9,
        ("spec", 1, "deep", 0): 10,
        ("spec", 2): 11,
        ("spec", 2, "y"): 11,
        ("spec", 3): 12,
    }


def test_locate_falls_back_to_what_is_around_a_value() -> None:
    assert locate(TEXT, 1, ["spec", 1, "deep", 0]) == 10
    assert locate(TEXT, 1, ["spec", 3, "y"]) == 12
    assert locate(TEXT, 1, ["status"]) == 4
