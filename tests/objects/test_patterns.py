"""Patterns of names mean what those of ``fnmatch`` do, whatever their length."""

from __future__ import annotations

import tracemalloc
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitsync.objects.patterns import matches
from tests.fuzz.__main__ import check


@example("[][", "[][")
@example("[!][a", "[!][a")
@example("[[]", "[")
@given(st.text("ab[]!-*?", max_size=12), st.text("ab[]!-", max_size=6))
def test_a_pattern_matches_what_fnmatch_matches(pattern: str, text: str) -> None:
    assert matches(text, pattern) == fnmatchcase(text, pattern)


@pytest.mark.parametrize("part", ["[", "x[y", "*[", "[]", "[!]", "*a"])
def test_a_long_pattern_takes_less_than_a_second(part: str) -> None:
    pattern = (part * 20_000)[:20_000]
    check(lambda data: matches(data.decode(), pattern), b"a" * 1000)


def test_patterns_that_are_used_once_do_not_pile_up() -> None:
    def held_after(numbers: range) -> int:
        for number in numbers:
            assert not matches("shop", f"team-{number}-*-[a-z]?")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = held_after(range(700))
        assert held_after(range(700, 2800)) < 1.5 * first
    finally:
        tracemalloc.stop()
