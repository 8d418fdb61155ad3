"""The fast reader gives what the full parser gives, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.errors import InvalidInput
from gitsync.render.yaml.block_style import UNREAD, block_lines, read_block
from gitsync.render.yaml.composer import compose
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.locations import places

MANIFEST = """\
---
# a comment
apiVersion: apps/v1
kind: "Deployment"
metadata:
  name: 'web'  # another
  labels: {app: web, tier: "1"}
  annotations:
spec:
  replicas: 0755
  $patch: merge
  template:
    spec:
      containers:
      - name: main
        args: ["--port", '8080', -v, 1.10]
        env:
          - {name: A, value: "b", image: a:1, deep: [{x: [y, 1.0], z: {}}, [ ]]}
          - name: B

            value: "in quotes" # another
        command:
        - sh
        - -c
        - |

          echo one
            two\t
          \x20

          three

        volumes: []
      # less indented
      hostNetwork: on
  script: |-
    exit 0
  last: ~
"""
FORMS = """
---
...
# c
  # c
%YAML 1.1
text
  text
"text"
-
- -
- - x
? x
- # c
a:
a: # c
a: b
a: b # c
a: b#c
a: b: c
a: b:
a:b
a : b
b: [1, 2
c: d
  a: b
  c: d
   e: f
    g:
  - h: i
- j: k
- l:
-   m: n
    o: p
- q
  - r
- s: - t
a: "b"
a: 'b'
a: 'it''s'
a: "b" # c
a: "b"#c
a: "b" c
a: "b
"a": b
'a' : b
a: ''
a: {}
a: []
a: [b]]
a: {b}
a: {b: }
a: {b: c: d}
a: {b: c, b: d}
a: {"b": c}
a: [b, c]
a: [,]
a: ['b,c', d]
a: [b:c]
a: {b: [c, {d: e}]}
a: [b] # c
a: [-, b]
a: [- b]
a: [b, 'c]
- {a: b}
- [a]
a: |
a: |-
a: |+
a: |2
a: | # c
a: >
- |
- a: |-
a: !!str b
a: &b c
a: *b
<<: *b
<<: {a: b}
yes: no
1: 2
true: a
null: a
~: a
.a: b
-a: b
a/b.c_d-e: f
a b: c
a: 1e3
a: 0755
a: 1.10
a: 2001-01-01
a: .inf
a: yes
a: -
a: - b
a: --b
a: ?
a: :b
a: ,
a: ]
a: @b
a: %b
a: `b
a: =
a: <<
a: ~
a: -1
a: +1
"""
LINES = [
    *FORMS.splitlines(),
    *("   ", "a: ", "a:  b  ", 'a: "\\n"', "é: é", "a: \xa0", "a: \x85", "\ta: b", "a:\tb", "a: b\t"),
    *("a: \u2028", "a: \ufeff", "a: 🙂", "a: \x07"),
]
ODD = ("", " ", "  ", ":", ": ", "- ", "#", " #", '"', "'", "{", "]", ",", "|", "\t", "\n", "é")


def exactly(value: Any) -> Any:
    """Return a value with the types of its parts, and how numbers and dates were written."""
    if isinstance(value, dict):
        return {"": [(type(key), key, exactly(item)) for key, item in value.items()]}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), repr(value), getattr(value, "text", None), getattr(value, "written", None)


def parsed(text: str, limits: YamlLimits) -> Any:
    try:
        return exactly(compose(text, "f", 1, limits))
    except InvalidInput as error:
        return str(error)


def assert_same(text: str) -> None:
    """What is read is what the full parser reads, and where; nothing is read that it refuses."""
    for limits in (YamlLimits(), YamlLimits(styles=True)):
        value = read_block(text, limits)
        if value is not UNREAD:
            assert exactly(value) == parsed(text, limits)
    lines = block_lines(text)
    if lines:
        assert lines == {place.path: place.line for place in places(text)}


def test_a_manifest_of_all_common_forms_is_read() -> None:
    assert read_block(MANIFEST) is not UNREAD
    assert_same(MANIFEST)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n"])
def test_an_empty_document_is_none(text: str) -> None:
    assert read_block(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: &x b\n",
        "a: *x\n",
        "a: !!str 1\n",
        "a: >\n  b\n",
        "a: b\n  c\n",
        "a: b\na: c\n",
        "a:\n  b: c\n d: e\n",
        "a: |\n  no newline at the end",
        "a: |\n\n",
        "a: |\n    b\n  c: d\n",
        "a: |\n  \tb\n   c\n e: f\n",
        "a: |\n  \x07\n",
        "a: .inf\n",
        "1: a\n",
        "on: a\n",
        "- a\nb: c\n",
        "a: b\n- c\n",
        "'a' b\n",
        "a: [[[[[[[[[b]]]]]]]]]\n",
        "a: [b,\n  c]\n",
        'a: "\\n"\n',
        "a: 'it''s'\n",
        "text\n",
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_the_full_parser(text: str) -> None:
    assert read_block(text) is UNREAD
    assert block_lines(text) is None


def test_values_in_brackets_are_not_shared() -> None:
    first = read_block("a: {b: [c]}\nd: []\n")
    first["a"]["b"].append("changed")
    first["d"].append("changed")
    assert read_block("a: {b: [c]}\nd: []\n") == {"a": {"b": ["c"]}, "d": []}


@pytest.mark.parametrize("last", ["a: b", "- a: b", "- a: [[[[[[[[b]]]]]]]]"])
def test_nesting_near_the_limit_is_left_to_the_full_parser(last: str) -> None:
    def nested(depth: int) -> str:
        return "".join(f"{' ' * level}a:\n" for level in range(depth)) + f"{' ' * depth}{last}\n"

    limits = YamlLimits(depth=20)
    assert read_block(nested(9), limits) == compose(nested(9), "f", 1, limits)
    assert read_block(nested(10), limits) is UNREAD


def test_each_pair_of_lines_is_read_as_by_the_full_parser() -> None:
    for first in LINES:
        for second in LINES:
            assert_same(f"{first}\n{second}\n")


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.sampled_from((0, 0, 2, 2, 4, 1)), st.sampled_from(LINES)).map(
            lambda line: " " * line[0] + line[1]
        ),
        max_size=7,
    ),
    st.sampled_from(("", "\n", "\n\n")),
)
def test_random_lines_are_read_as_by_the_full_parser(lines: list[str], end: str) -> None:
    assert_same("\n".join(lines) + end)


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from((*"[]{},:-?#", "[", "{", ", ", ": ", "a", "b: ", "1", "'c d'", '"e, f"', " ", "x:y", "~")),
        max_size=12,
    )
)
def test_random_brackets_are_read_as_by_the_full_parser(parts: list[str]) -> None:
    text = "".join(parts)
    closed = text + "".join("]" if part[0] == "[" else "}" for part in reversed(parts) if part[0] in "[{")
    for value in (f"a: [{text}]\n", f"a: {{b: {text}}}\n", f"- {closed}\n"):
        assert_same(value)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_manifest_is_read_as_by_the_full_parser(data: st.DataObject) -> None:
    lines = MANIFEST.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = data.draw(st.integers(0, len(line)))
        odd = data.draw(st.sampled_from(ODD))
        lines[at] = line[:cut] + odd + line[cut + data.draw(st.integers(0, 2)) :]
    assert_same("\n".join(lines))
