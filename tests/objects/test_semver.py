"""Ranges of versions: which tags they match, and what is not a valid range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.objects.semver import parse_range, parse_version

TAGS = ("v1.0.0", "1.2.0", "v1.2.9", "v1.10.0", "v2.0.0", "v2.0.0-rc.1", "0.3.1", "0.3.9", "0.4.0", "v3", "nightly")


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (">=1.2 <2", "v1.10.0"),
        (">=1.2, <1.10", "v1.2.9"),
        (">= 1.2", "v2.0.0"),
        (">1.2", "v2.0.0"),
        (">1.10", "v2.0.0"),
        ("<=1.2", "v1.2.9"),
        ("=1.2", "v1.2.9"),
        ("!=2.0.0", "v1.10.0"),
        ("1.x", "v1.10.0"),
        ("v1.2.*", "v1.2.9"),
        ("~1.2", "v1.2.9"),
        ("~0.3.1", "0.3.9"),
        ("~1", "v1.10.0"),
        ("^1.2", "v1.10.0"),
        ("^0.3", "0.3.9"),
        ("*", "v2.0.0"),
        ("0.3.x || ~1.2.0", "v1.2.9"),
        (">2", None),
        (">2.0.0", None),
        ("*.*.*", "v2.0.0"),
        (">=2.0.0-0 <2.0.0", "v2.0.0-rc.1"),
    ],
)
def test_a_range_names_the_highest_tag_inside(text: str, tag: str | None) -> None:
    found = parse_range(text)
    assert found is not None
    assert found.highest(TAGS) == tag


@pytest.mark.parametrize(
    "text", ["main", "1.2.3", "v1.2", "1.x-branch", "feature/a.x", "release=1", ">=", ">=a", "1.x ||", "~" * 300, ""]
)
def test_names_and_nonsense_are_no_ranges(text: str) -> None:
    assert parse_range(text) is None


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("1.0.0-alpha", "1.0.0-alpha.1"),
        ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
        ("1.0.0-beta.2", "1.0.0-beta.11"),
        ("1.0.0-rc.1", "1.0.0"),
        ("1.9.0", "1.10.0"),
    ],
)
def test_versions_are_ordered_as_the_specification_says(lower: str, higher: str) -> None:
    one, two = parse_version(lower), parse_version(higher)
    assert one is not None
    assert two is not None
    assert one.rank < two.rank


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading(text: str) -> None:
    found = parse_range(text)
    assert found is None or found.highest(TAGS) in (None, *TAGS)
