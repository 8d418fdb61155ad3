"""Advice on plans, and its cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Risk


@dataclass(frozen=True, slots=True)
class Advice:
    """What a reasoner adds to the explanation of a plan, and the class that it suggests, with its reason."""

    explanation: str = ""
    risk: Risk = Risk.SAFE
    reason: str = ""


class Reasoner(Protocol):
    """
    Comment on plans. Never raises: a failure is an Advice that reports it and changes nothing.

    Called by a reconcile before the gate decides, again at each pass until there is an answer.
    """

    def advise(self, app: Application, plan: Plan, key: str) -> Advice | None:
        """Return the advice on a plan, requested once; None while the request is pending. Never blocks."""
        ...


class AdviceCache(Protocol):
    """
    Answers of reasoners, stored so that one plan is not paid for twice; only the newest are kept.

    Called by the reasoner before a request is sent and after it was answered.
    """

    def advice(self, digest: str, asked: str) -> Advice | None:
        """Return the advice on a plan by the endpoint whose hash is ``asked``, None when there is none."""
        ...

    def keep_advice(self, digest: str, asked: str, advice: Advice) -> None:
        """Keep an answer."""
        ...
