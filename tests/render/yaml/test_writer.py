from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write, write_all


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", '""'),
        ("plain text", "plain text"),
        ("yes", '"yes"'),
        ("Off", '"Off"'),
        ("y", '"y"'),
        ("oN", "oN"),
        ("true", '"true"'),
        ("null", '"null"'),
        ("~", '"~"'),
        ("1", '"1"'),
        ("1.5e3", '"1.5e3"'),
        ("1e400", "1e400"),
        ("0x1f", '"0x1f"'),
        ("0b-1", '"0b-1"'),
        ("08", '"08"'),
        ("0o8", "0o8"),
        ("0o-7", "0o-7"),
        (".inf", '".inf"'),
        ("12:30", '"12:30"'),
        ("2001-01-01", '"2001-01-01"'),
        ("2001-13-01", "2001-13-01"),
        ("<<", "<<"),
        ("=", "="),
        ("-", "'-'"),
        ("-a", "-a"),
        ("- a", "'- a'"),
        ("?a", "?a"),
        ("? a", "'? a'"),
        (":a", ":a"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("#a", "'#a'"),
        ("@a", "'@a'"),
        ("---a", "'---a'"),
        ("a ", "'a '"),
        (" a", "' a'"),
        ("it's", "it's"),
        ("'it's", "'''it''s'"),
        ("{a", "'{a'"),
        ("a{b}", "a{b}"),
        ("tab\there", '"tab\\there"'),
        ("\x1b[0m\x85", '"\\e[0m\\N"'),
        ("\x01", '"\\x01"'),
        ("é\u00a0", "é\u00a0"),
        ("🙂", '"\\U0001F642"'),
        ("\ufeffa\u00a0", '"\\uFEFF\\x61\\_"'),
        ("a\ufeff", '"a\\uFEFF"'),
        ("a \u2028b", '"a \\Lb"'),
        ("a\rb", '"a\\rb"'),
        (True, "true"),
        (None, "null"),
        (0, "0"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e+19"),
        (0.5, "0.5"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (123456.789, "123456.789"),
        (1234567.5, "1.2345675e+06"),
        (-1.5e300, "-1.5e+300"),
        (1e21, "1e+21"),
        ({}, "{}"),
        ([], "[]"),
    ],
)
def test_scalars_have_the_form_that_kustomize_gives_them(value: Any, text: str) -> None:
    assert write({"a": value}) == f"a: {text}\n"
    assert write([value]) == f"- {text}\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "a: |-\n  a\n  b\n"),
        ("a\n\n  b\n", "a: |\n  a\n\n    b\n"),
        ("a\n\n", "a: |+\n  a\n\n"),
        ("\n", "a: |2+\n\n"),
        ("\n\na", "a: |2-\n\n\n  a\n"),
        (" a\nb", "a: |2-\n   a\n  b\n"),
        ("a \nb", 'a: "a \\nb"\n'),
        ("a\nb ", 'a: "a\\nb "\n'),
        ("a\tb\n", 'a: "a\\tb\\n"\n'),
        ("a\n🙂", 'a: "a\\n\\U0001F642"\n'),
        ("a\n'b", "a: |-\n  a\n  'b\n"),
        ("---\n...", "a: |-\n  ---\n  ...\n"),
        ("'a\u2028b", "a: '''a\u2028  b'\n"),
    ],
)
def test_texts_of_several_lines_are_blocks_where_a_block_can_hold_them(value: str, text: str) -> None:
    assert write({"a": value}) == text


def test_long_lines_are_folded_at_a_single_space_past_column_80() -> None:
    words = "word " * 20
    assert write({"a": f"{words}end"}) == f"a: {'word ' * 15}word\n  {'word ' * 4}end\n"
    assert write({"a": f"# {words}end"}) == f"a: '# {'word ' * 15}word\n  {'word ' * 4}end'\n"
    assert write({"a": f"\t{words}end"}) == f'a: "\\t{"word " * 15}word\n  {"word " * 4}end"\n'
    assert write({"a": "x" * 100}) == f"a: {'x' * 100}\n"
    assert write({"a": f"{'x' * 90}  y"}) == f"a: {'x' * 90}  y\n"
    assert write({"a": f"\t{'x' * 90}  y"}) == f'a: "\\t{"x" * 90}\n  \\ y"\n'
    assert write({"a": f"{'x' * 90} "}) == f"a: '{'x' * 90} '\n"


def test_collections_are_nested_as_kustomize_nests_them() -> None:
    value = {"a": {"b": [{"c": 1, "d": [2, [3, 4], [], {}]}, [[5]], "x\ny"]}, "e": [{"f": {"g": None}}]}
    assert write(value) == (
        "a:\n  b:\n  - c: 1\n    d:\n    - 2\n    - - 3\n      - 4\n    - []\n    - {}\n"
        "  - - - 5\n  - |-\n    x\n    y\ne:\n- f:\n    g: null\n"
    )


def test_keys_are_sorted_with_numbers_by_value_and_letters_last() -> None:
    keys = ["b", "a", "A", "a10", "a9", "a_b", "a.b", "1", "10", "9", "_", "a", "é", "x1001", "x12", "x100", "a-b"]
    printed = write(dict.fromkeys(keys, 0)).replace(": 0\n", " ").replace('"', "")
    assert " ".join(printed.split()) == "_ 1 9 10 A a a-b a.b a_b a9 a10 b x12 x100 x1001 é"


def test_keys_are_quoted_like_values() -> None:
    assert write({"yes": 1, "1": 2, "a: b": 3, "": 4}) == '"": 4\n"1": 2\n\'a: b\': 3\n"yes": 1\n'


def test_keys_that_are_long_or_of_several_lines_stand_on_their_own() -> None:
    assert write({"k" * 128: 1}) == f"{'k' * 128}: 1\n"
    assert write({"é" * 65: {"b": [1, 2], "c": {}}}) == f"? {'é' * 65}\n: b:\n  - 1\n  - 2\n  c: {{}}\n"
    assert write({"a": {"x\ny": [1, [2]]}}) == "a:\n  ? |-\n    x\n    y\n  : - 1\n    - - 2\n"


def test_documents_are_separated_by_three_dashes() -> None:
    assert write_all([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
    assert write_all([]) == ""
    assert write_all(["text", 1]) == "text\n---\n1\n"


PRINTABLE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x7f"), max_size=120)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
    | PRINTABLE
    | st.from_regex(r"[-+0-9.eExobyn_:T# ]{1,12}", fullmatch=True)
    | st.from_regex(r"([ab#\n' :-]{1,12} ){1,20}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert read_all("---\n" + write({"root": [value]})) == [{"root": [value]}]


@example("< <")
@given(PRINTABLE.filter(lambda text: text not in ("=", "<<")))  # that reader has types for them, but no values
def test_another_reader_sees_the_same_text(text: str) -> None:
    assert yaml.load(write({"a": text}), yaml.CSafeLoader) == {"a": text}


def test_no_number_of_digits_is_too_many() -> None:
    assert write(["9" * 10_000]) == f"- {'9' * 10_000}\n"
    assert write(["9" * 300]) == f'- "{"9" * 300}"\n'
