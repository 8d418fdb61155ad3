"""Agents by environment: one cell for each, with what differs from the environment before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from gitsync.server.queries.agent_settings import is_stage, promotion_order
from gitsync.server.queries.agents import AgentRow

ASPECTS: Final = ("model", "endpoint", "prompt", "tools")


@dataclass(frozen=True, slots=True)
class Cell:
    """
    One agent in one environment; ``differs`` names the aspects that are not as in the environment ``before``.

    ``row_before`` is its row there.
    """

    agent: str
    environment: str
    row: AgentRow
    before: str = ""
    differs: tuple[str, ...] = ()
    row_before: AgentRow | None = None


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One agent in all environments."""

    agent: str
    cells: tuple[Cell, ...]

    def within(self, environment: str) -> list[Cell]:
        """Return the cells of an environment; several where Applications share it and the name."""
        return [cell for cell in self.cells if cell.environment == environment]

    @property
    def differs(self) -> bool:
        """Whether any two environments differ."""
        return any(cell.differs for cell in self.cells)


def environments(rows: Iterable[AgentRow]) -> list[str]:
    """Return the environments of agents in the order of promotion."""
    return sorted({row.environment for row in rows}, key=promotion_order)


def unordered(columns: Iterable[str]) -> frozenset[str]:
    """Return the environments whose names say nothing of a stage, where others do: they are not compared with these."""
    names = frozenset(columns)
    stages = frozenset(filter(is_stage, names))
    return names - stages if stages else frozenset()


def matrix(rows: Iterable[AgentRow]) -> list[AgentLine]:
    """Return the agents by name, each with its environments in the order of promotion."""
    ordered = sorted(rows, key=lambda row: (row.agent, row.family, promotion_order(row.environment), row.namespace))
    # groupby joins neighbours only, hence the order
    groups = groupby(ordered, key=lambda row: (row.agent, row.family))
    return [AgentLine(agent, tuple(_compared([*rows_of_agent]))) for (agent, _), rows_of_agent in groups]


def flat(cell: Cell) -> dict[str, Any]:
    """Return a cell as the API and the command line show it."""
    row = cell.row
    named = {name: getattr(row, name) for name in ("application", "namespace", "name", *ASPECTS)}
    return {"agent": cell.agent, "environment": cell.environment, **named} | {
        "before": cell.before,
        "differs": cell.differs,
    }


def _compared(rows: Sequence[AgentRow]) -> Iterable[Cell]:
    previous: AgentRow | None = None
    for index, row in enumerate(rows):
        # several cells of one environment are compared with the same one before
        if index and rows[index - 1].environment != row.environment:
            # dev, test and prod are stages; a name that says nothing is not what comes after prod
            is_next = is_stage(rows[index - 1].environment) == is_stage(row.environment)
            previous = rows[index - 1] if is_next else None
        cell = Cell(row.agent, row.environment, row)
        yield (
            cell
            if previous is None
            else replace(cell, before=previous.environment, differs=_differences(previous, row), row_before=previous)
        )


def _differences(previous: AgentRow, row: AgentRow) -> tuple[str, ...]:
    return tuple(name for name in ASPECTS if getattr(previous, name) != getattr(row, name))
