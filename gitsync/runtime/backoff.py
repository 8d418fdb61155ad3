"""Delays that grow: randomness is an argument, so a delay can be predicted in a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: ``initial``, then ``factor`` times more after each failure, up to ``max``, plus jitter."""

    initial: float = 0.5
    factor: float = 2.0
    max: float = 60.0
    jitter: float = 0.2

    def delay(self, failures: int, random: float) -> float:
        """
        Return the wait in seconds after ``failures`` failures in a row (1 or more); ``random`` lies in [0, 1).

        The jitter only shortens a delay, so ``max`` holds.
        """
        # the exponent is bounded: a float power of a large number of failures would overflow
        grown = self.initial * self.factor ** min(max(failures, 1) - 1, 64)
        return min(grown, self.max) * (1 - self.jitter * random)
