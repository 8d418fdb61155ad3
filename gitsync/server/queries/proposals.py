"""What waits to be merged: pull requests, and branches by pattern; and the updates that can become one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitsync.edit.adopt import AdoptedValue
from gitsync.edit.images import moved_tags
from gitsync.errors import one_line
from gitsync.ports.previews import Proposals, ProposalView
from gitsync.preview.report import PreviewReport
from gitsync.server.queries.filters import Filter
from gitsync.services.updates import Updates, UpdateState, UpdateView, refusals

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


@dataclass(frozen=True, slots=True)
class UpdateValueRow:
    """A value that an update takes, and the line that it is written to."""

    object: str
    field: str
    old: str
    new: str
    where: str


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """
    What can be taken into an Application: images of registries, or values of the Application ``origin``.

    ``chain`` has the Applications in the order of promotion. ``digest`` is that of the values as they are shown, empty
    where they cannot be proposed. ``refused`` are lines about values that are not taken, ``moved`` about declared tags
    whose digest in the registry is another one than what runs.
    """

    application: str
    kind: str
    mode: str
    state: str
    problem: str
    origin: str
    chain: tuple[str, ...]
    risk: str
    values: tuple[UpdateValueRow, ...]
    refused: tuple[str, ...]
    moved: tuple[str, ...]
    digest: str
    branch: str
    url: str
    commit: str
    by: str
    proposed: datetime | None
    checked: datetime


_LONGEST_VALUE: Final = 200
"""Characters of a value; a prompt has thousands, and its pull request shows all of it."""


def update_rows(updates: Updates) -> list[UpdateRow]:
    """Return what can be taken, each Application after those that it promotes from."""
    rows = map(_update_row, updates.updates())
    return sorted(
        rows, key=lambda row: (row.chain[:1] or (row.application,), len(row.chain), row.application, row.kind)
    )


def _update_row(view: UpdateView) -> UpdateRow:
    update = view.update
    adoption = update.adoption if update is not None else None
    is_open = update is not None and update.is_ready and view.state is not UpdateState.PROPOSED
    return UpdateRow(
        view.application,
        view.key.kind.value,
        view.mode,
        view.state.value,
        view.problem,
        update.origin if update is not None else "",
        update.chain if update is not None else (),
        update.risk.value if update is not None and update.is_ready else "",
        tuple(_value_row(value) for value in adoption.values) if adoption is not None else (),
        tuple(refusals(update)) if update is not None else (),
        tuple(f"{ref}, {text}" for ref, text in moved_tags(update.images).items()) if update is not None else (),
        adoption.digest if adoption is not None and is_open else "",
        view.branch,
        view.url,
        view.commit,
        view.by,
        view.proposed,
        view.checked,
    )


def _value_row(value: AdoptedValue) -> UpdateValueRow:
    old, new = (one_line(str(item), _LONGEST_VALUE) for item in (value.old, value.kept.value))
    return UpdateValueRow(str(value.kept.ref), value.kept.path.lstrip("."), old, new, value.where)


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
