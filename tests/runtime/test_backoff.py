"""Delays grow, stay below their maximum, and jitter only shortens them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitsync.runtime.backoff import Backoff


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(initial=0.5, factor=2, max=3, jitter=0)
    assert [backoff.delay(failures, 0.9) for failures in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 3, 3]


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_negative_nor_above_the_maximum(failures: int, random: float) -> None:
    assert 0 < Backoff().delay(failures, random) <= Backoff().max
