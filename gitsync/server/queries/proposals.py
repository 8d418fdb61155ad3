"""What waits to be merged: pull requests, and branches by pattern, with what they will do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitsync.ports.previews import Proposals, ProposalView
from gitsync.preview.report import PreviewReport
from gitsync.server.queries.filters import Filter

NAMES: Final = ("app", "name", "by", "risk", "state", "since", "until")
"""The members of a filter that the list of pull requests accepts."""


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """
    A pull request, or a branch, and what it will do.

    ``state`` is Valid, or Invalid where it cannot be merged, built or applied for the reason ``problem``; ``risk`` is
    empty where no report tells it.
    """

    key: str
    name: str
    title: str
    author: str
    repository: str
    base_branch: str
    head_branch: str
    head: str
    url: str
    is_fork: bool
    is_draft: bool
    state: str
    risk: str
    problem: str
    objects: int
    folders: tuple[str, ...]
    applications: tuple[str, ...]
    """Those whose objects change."""
    updated: datetime


def proposal_rows(proposals: Proposals, query: Filter) -> list[ProposalRow]:
    """Return the proposals that match, those updated last first."""
    rows = map(proposal_row, proposals.proposals())
    matches = query.matcher(_READ, _text)
    return [row for row in rows if matches(row) and query.is_in_time(row.updated)]


def proposal_row(view: ProposalView) -> ProposalRow:
    """Return what a list shows of a proposal."""
    proposal = view.proposal
    report = view.report
    changes = report.changes if report is not None else ()
    return ProposalRow(
        proposal.key,
        proposal.name,
        proposal.title,
        proposal.author,
        proposal.repository,
        proposal.base_branch,
        proposal.head_branch,
        proposal.head,
        proposal.url,
        proposal.is_fork,
        proposal.is_draft,
        "Valid" if report is not None and report.is_valid else "Invalid",
        report.risk if report is not None else "",
        view.problem or _problem(report),
        sum(len(change.steps) for change in changes),
        tuple(dict.fromkeys(root for change in changes for root in change.roots)),
        tuple(dict.fromkeys(name for change in changes for name in change.applications)),
        proposal.updated or view.previewed,
    )


def find_proposal(proposals: Proposals, key: str) -> ProposalView | None:
    """Return the proposal of a key, None where none waits."""
    return next((view for view in proposals.proposals() if view.proposal.key == key), None)


def _problem(report: PreviewReport | None) -> str:
    changes = report.changes if report is not None else ()
    return next((text for change in changes for text in (change.problem, *change.violations) if text), "")


def _text(row: ProposalRow) -> str:
    return f"{row.name} {row.title} {row.author} {row.head_branch} {row.repository} {row.problem}"


_READ: Final[Mapping[str, Callable[[ProposalRow], Iterable[str]]]] = {
    "app": lambda row: [part for key in row.applications for part in (key, key.rpartition("/")[2])],
    "name": lambda row: (row.name, row.head_branch),
    "by": lambda row: (row.author,),
    "risk": lambda row: (row.risk,),
    "state": lambda row: (row.state,),
}
