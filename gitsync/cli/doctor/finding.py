"""One result of a check, with the fix where something is missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """How a check ended."""

    OK = "OK"
    WARNING = "Warning"
    """It works, with the limit that the detail names."""
    MISSING = "Missing"
    """It does not work until the fix is applied."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, how that ended, and what to do."""

    check: str
    result: Result
    detail: str = ""
    fix: str = ""


def ok(check: str, detail: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(check, Result.OK, detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that limits what works."""
    return Finding(check, Result.WARNING, detail, fix)


def missing(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that prevents something."""
    return Finding(check, Result.MISSING, detail, fix)
