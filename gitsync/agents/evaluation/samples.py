"""Answers of an agent that differ from one time to the next: how often a case is asked, and what the counts mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Protocol

from gitsync.agents.evaluation.verdict import CaseResult
from gitsync.agents.model.evaluation import Evaluation


class AnswerOutcome(Enum):
    """How one answer to a case ended; ``UNKNOWN``: nothing can be judged."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AnswerSample:
    """One answer to a case: how it ended, and why it did not pass."""

    outcome: AnswerOutcome
    message: str = ""


class AskCase(Protocol):
    """Ask an agent a case once."""

    def __call__(self) -> AnswerSample:
        """Return how the answer ended."""
        ...


@dataclass(frozen=True, slots=True)
class CaseSamples:
    """The answers to one case, in order, and how many of ``total`` have to pass."""

    samples: tuple[AnswerSample, ...]
    needed: int
    total: int

    @property
    def outcome(self) -> AnswerOutcome:
        """Whether enough of the answers passed; unknown where those that nothing is known of decide."""
        passed = self._count(AnswerOutcome.PASSED)
        failed = self._count(AnswerOutcome.FAILED)
        if passed >= self.needed:
            return AnswerOutcome.PASSED
        return AnswerOutcome.FAILED if failed > self.total - self.needed else AnswerOutcome.UNKNOWN

    @property
    def is_decided(self) -> bool:
        """Whether no further answer can change the outcome."""
        return self.outcome is not AnswerOutcome.UNKNOWN or len(self.samples) == self.total

    @property
    def message(self) -> str:
        """Why it did not pass, with the counts where it was asked more than once; also of one that passed mostly."""
        reasons = [sample.message for sample in self.samples if sample.outcome is not AnswerOutcome.PASSED]
        if not reasons or self.total == 1:
            return reasons[0] if reasons else ""
        return f"passed {self._count(AnswerOutcome.PASSED)} of {len(self.samples)}: {reasons[0]}"

    def _count(self, outcome: AnswerOutcome) -> int:
        return sum(sample.outcome is outcome for sample in self.samples)


def ask_case(name: str, evaluation: Evaluation, ask: AskCase, ask_serving: AskCase | None) -> CaseResult:
    """
    Return the result of a case, which is asked as often as the evaluation says, on both revisions in turn.

    It ends early once no further answer can change the result; not where answers are compared with those of the
    serving revision, since pairs that are chosen by their results would favour one side.
    """
    needed = max(ceil(evaluation.samples * evaluation.sample_percent / 100), 1)
    own: list[AnswerSample] = []
    serving: list[AnswerSample] = []
    is_compared = ask_serving is not None and evaluation.no_worse_than_serving
    for _ in range(evaluation.samples):
        is_own_decided = CaseSamples(tuple(own), needed, evaluation.samples).is_decided
        is_serving_decided = CaseSamples(tuple(serving), needed, evaluation.samples).is_decided
        if is_compared or not is_own_decided:
            own.append(ask())
        if ask_serving is not None and (is_compared or not is_serving_decided):
            serving.append(ask_serving())
    result = CaseSamples(tuple(own), needed, evaluation.samples)
    compared = CaseSamples(tuple(serving), needed, evaluation.samples).outcome if serving else AnswerOutcome.UNKNOWN
    pairs = list(_pairs(own, serving)) if is_compared else []
    return CaseResult(
        name,
        result.outcome is AnswerOutcome.PASSED,
        # What the serving revision cannot answer now is not held against it.
        None if compared is AnswerOutcome.UNKNOWN else compared is AnswerOutcome.PASSED,
        result.message,
        is_inconclusive=result.outcome is AnswerOutcome.UNKNOWN,
        is_flaky=len({sample.outcome for sample in own} - {AnswerOutcome.UNKNOWN}) > 1,
        worse=pairs.count((AnswerOutcome.FAILED, AnswerOutcome.PASSED)),
        better=pairs.count((AnswerOutcome.PASSED, AnswerOutcome.FAILED)),
    )


def _pairs(
    own: Sequence[AnswerSample], serving: Sequence[AnswerSample]
) -> Iterator[tuple[AnswerOutcome, AnswerOutcome]]:
    """Yield the outcomes of the answers that both revisions gave to one question at about the same time."""
    for sample, compared in zip(own, serving, strict=False):
        yield sample.outcome, compared.outcome


def vote(ask: AskCase, votes: int) -> AnswerSample:
    """Return what most of some answers of a judge say; unknown where neither side has a majority."""
    return _majority(_votes(ask, votes), votes)


def _votes(ask: AskCase, votes: int) -> list[AnswerSample]:
    """Return the answers of a judge until one side has the majority."""
    cast: list[AnswerSample] = []
    while len(cast) < votes and _majority(cast, votes).outcome is AnswerOutcome.UNKNOWN:
        cast.append(ask())
    return cast


def _majority(cast: Sequence[AnswerSample], votes: int) -> AnswerSample:
    for outcome in (AnswerOutcome.PASSED, AnswerOutcome.FAILED):
        same = [sample for sample in cast if sample.outcome is outcome]
        if len(same) > votes // 2:
            return same[0]
    return next(
        (sample for sample in cast if sample.outcome is AnswerOutcome.UNKNOWN), AnswerSample(AnswerOutcome.UNKNOWN)
    )
