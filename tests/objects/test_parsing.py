"""Single fields are read as people write them, and durations are written back the same."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.parsing import choice, duration, parse_duration, parse_number, strings


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (45, "45s"), (120, "2m"), (5400, "1h30m"), (3661, "1h1m1s"), (90000, "25h")]
)
def test_durations_are_read_and_written(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert parse_duration(text, "spec.x") == seconds


@pytest.mark.parametrize("text", ["", "5", "-5s", "1d", "1.5h", "5m3h", "\uff15s", "99999h", None, 5])
def test_what_is_no_duration_names_the_field(text: object) -> None:
    with pytest.raises(InvalidInput, match="30s, 3m or 1h30m") as caught:
        parse_duration(text, "spec.x")
    assert caught.value.location == "spec.x"


def test_a_duration_may_have_a_least() -> None:
    assert parse_duration("1s", "spec.x", least=1.0) == 1.0
    with pytest.raises(InvalidInput, match="between 1s"):
        parse_duration("0s", "spec.x", least=1.0)


def test_numbers_are_decimal_texts() -> None:
    assert [parse_number(text, "x") for text in ("0.05", "-2", "10")] == [0.05, -2.0, 10.0]
    for text in ("NaN", "1e3", "+1", ".5", "1.", "", 0.05, None):
        with pytest.raises(InvalidInput, match="no number"):
            parse_number(text, "x")


def test_choices_and_lists_are_held_to_their_form() -> None:
    assert choice("A", ("A", "B"), "x") == "A"
    assert strings(["a", "b"], "x") == ("a", "b")
    with pytest.raises(InvalidInput, match="not one of A, B"):
        choice("C", ("A", "B"), "x")
    for value in ("a", [1], None):
        with pytest.raises(InvalidInput, match="list of strings"):
            strings(value, "x")
