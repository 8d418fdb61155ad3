from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.kube.quantity import Form, Quantity, canonical, duration, equal, parse


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("536870912", "536870912"),
        ("0.01Ti", "10995116277760m"),
        ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"),
        ("1e3", "1e3"),
        ("1.5e3", "1500"),
        ("1E", "1E"),
        ("100000", "100k"),
        ("-1.5", "-1500m"),
        ("+5", "5"),
        ("007", "7"),
        (".5", "500m"),
        ("5.", "5"),
        ("0Mi", "0"),
        ("0.0000000001", "1n"),
        ("-0.0000000001", "-1n"),
        ("9999999999999999999", "9223372036854775807"),
        (2, "2"),
        (0.1, "100m"),
    ],
)
def test_stores_the_canonical_spelling(written: str | float, stored: str) -> None:
    assert canonical(written) == stored


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must match the regular expression"),
        ("a", "must match the regular expression"),
        ("1 ", "must match the regular expression"),
        ("1..2", "must match the regular expression"),
        ("١", "must match the regular expression"),  # noqa: RUF001 another script's digit
        (".", "unable to parse numeric part"),
        ("1mm", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e+", "unable to parse quantity's suffix"),
        ("1k3", "unable to parse quantity's suffix"),
        ("1e999999999", "unable to parse quantity's suffix"),
    ],
)
def test_refuses_what_is_no_quantity(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_compares_by_amount() -> None:
    assert parse("1024Mi") == parse("1Gi")
    assert parse("999m") < parse("1") < parse("1Ki")
    assert equal("0.1", "100m")
    assert not equal("1", "1Ki")
    assert not equal("x", "x")


def test_whole_units_round_away_from_zero() -> None:
    assert int(parse("1500m")) == 2
    assert int(parse("-1500m")) == -2
    assert int(parse("1u")) == 1


@given(st.integers(-(10**15), 10**15), st.integers(0, 9), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_the_stored_spelling_has_the_same_amount_and_is_stable(number: int, places: int, suffix: str) -> None:
    text = f"{Fraction(number, 10**places).__float__():.3f}{suffix}"
    stored = canonical(text)
    assert canonical(stored) == stored
    assert parse(stored) == parse(text)


@given(st.integers(-(2**60), 2**60), st.sampled_from(list(Form)))
def test_a_printed_quantity_reads_back(nanos: int, form: Form) -> None:
    assert parse(str(Quantity(nanos, form))).nanos == nanos


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("1h30m", 5400 * 10**9), ("1.5s", 1500 * 10**6), ("100ms", 10**8), ("-1m", -60 * 10**9), ("0", 0), ("1us", 1000)],
)
def test_reads_durations(text: str, nanoseconds: int) -> None:
    assert duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "1", "1x", "s", "1s 2s", "1h-1m"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        duration(text)
