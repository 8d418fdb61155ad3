"""Field types of specs, and errors that name the field and how to fix it."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field

from gitsync.errors import InvalidInput
from gitsync.objects.change import Risk
from gitsync.objects.parsing import DecimalText, Duration, Seconds, Spec, Strings, Text, duration, parse_spec


class Part(Spec):
    """A nested spec."""

    repo_url: Text = Field("x", alias="repoURL")
    is_on: bool = False


class Whole(Spec):
    """A spec with a field of every type."""

    time: Duration = 0.0
    bounded: Annotated[float, Seconds(1.0, 120.0)] = 1.0
    number: DecimalText = 0.0
    names: Strings = ()
    part: Part = Field(default_factory=Part)
    parts: Annotated[tuple[Part, ...], Field(strict=False)] = ()
    choice: Literal["A", "B", "C"] = "A"
    risk: Annotated[Risk, Field(strict=False)] = Risk.SAFE
    count: Annotated[int, Field(ge=1, le=9)] = 1


def parsed(**members: object) -> Whole:
    return parse_spec(Whole, members, "spec")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (45, "45s"), (120, "2m"), (5400, "1h30m"), (3661, "1h1m1s"), (90000, "25h")]
)
def test_durations_are_read_and_written(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert parsed(time=text).time == seconds


@pytest.mark.parametrize("text", ["", "5", "-5s", "1d", "1.5h", "5m3h", "\uff15s", "99999h", None, 5, 5.0])
def test_an_invalid_duration_names_the_field(text: object) -> None:
    with pytest.raises(InvalidInput, match=r"^spec\.time: .* is not a duration .*30s, 3m or 1h30m$"):
        parsed(time=text)


def test_a_duration_may_have_a_range() -> None:
    assert parsed(bounded="1s").bounded == 1.0
    for text in ("0s", "3m"):
        with pytest.raises(InvalidInput, match="between 1s and 2m"):
            parsed(bounded=text)


def test_numbers_are_decimal_texts() -> None:
    assert [parsed(number=text).number for text in ("0.05", "-2", "10")] == [0.05, -2.0, 10.0]
    for text in ("NaN", "1e3", "+1", ".5", "1.", "", 0.05, None):
        with pytest.raises(InvalidInput, match=r'spec\.number: .* is not a number in quotes; write it as "0.05"'):
            parsed(number=text)


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"part": {"isOn": "false"}}, "spec.part.isOn: 'false' is not a boolean; write true or false without quotes"),
        ({"part": {"isOn": 1}}, "spec.part.isOn: 1 is not a boolean; write true or false without quotes"),
        ({"part": {"repoURL": ""}}, "spec.part.repoURL: must not be empty"),
        ({"part": {"repoURL": True}}, "spec.part.repoURL: true is not a string; write it in quotes"),
        ({"part": {"repoURL": {"a": 1}}}, "spec.part.repoURL: a mapping is not a string; write it in quotes"),
        ({"part": "x"}, "spec.part: 'x' is not a mapping; write its fields as key: value"),
        ({"part": {"repoUrl": "x"}}, "spec.part.repoUrl: is not a known field; write one of repoURL, isOn"),
        ({"parts": [{}, {"x": 1}]}, "spec.parts[1].x: is not a known field; write one of repoURL, isOn"),
        ({"names": "a"}, "spec.names: 'a' is not a list; write each item after a dash"),
        ({"names": ["a", 1]}, "spec.names[1]: 1 is not a string; write it in quotes"),
        ({"choice": "D"}, "spec.choice: 'D' is not one of A, B, C"),
        ({"risk": "High"}, "spec.risk: 'High' is not one of Safe, Moderate, Dangerous"),
        ({"count": "2"}, "spec.count: '2' is not an integer; write it without quotes"),
        ({"count": 0}, "spec.count: 0 is out of range; write a number of at least 1"),
        ({"count": 10}, "spec.count: 10 is out of range; write a number of at most 9"),
        ({"choice": "D" * 100}, f"spec.choice: '{'D' * 79}… is not one of A, B, C"),
    ],
)
def test_an_error_names_the_field_and_how_to_fix_it(members: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(**members)
    assert str(caught.value) == error


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parsed().count = 2  # type: ignore[misc]
