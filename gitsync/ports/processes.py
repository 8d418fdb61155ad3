"""The other controller processes of this machine, for metrics and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gitsync.ports.costs import Cost


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """
    What a process measured since its start: its metrics as a text of Prometheus, and the costs of Applications.

    ``name`` is its number; one that does not answer has neither, and ``is_up`` is False.
    """

    name: str
    metrics: str = ""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    is_up: bool = True


OtherProcesses = Callable[[], tuple[ProcessReport, ...]]
"""Return what the other processes report now, in at most some seconds; called for each page of metrics and costs."""


def no_others() -> tuple[ProcessReport, ...]:
    """Return nothing: this process is the only one."""
    return ()
