"""The history of drift, from the audit: each field that others changed, and how that ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gitsync.plan.drift_history import DRIFT_ACTION, PastField, past_fields
from gitsync.ports import Records
from gitsync.server.queries.filters import Filter

NAMES: Final = ("app", "ns", "kind", "name", "by", "since", "until")
"""The members of a filter that the history of drift accepts; ``by`` is a field manager."""
_BATCH = 500
"""Links that are read at a time."""
_SEARCHED = 20 * _BATCH
"""Links that one page reads at most: a filter that matches little must not read the whole audit."""


@dataclass(frozen=True, slots=True)
class DriftHistory:
    """A page of the history, newest first; ``older`` is the id of the link before which the next page begins, or 0."""

    fields: tuple[PastField, ...]
    older: int


def drift_history(records: Records, query: Filter, *, limit: int, before: int = 0) -> DriftHistory:
    """Return the fields that match, of as many whole links as it takes to have ``limit`` of them."""
    matches = query.matcher(_READ, lambda field: f"{field.application} {field.ref} {field.path}")
    fields: list[PastField] = []
    position = before
    for _ in range(_SEARCHED // _BATCH):
        links = records.audit_records(query.application, action=DRIFT_ACTION, limit=_BATCH, before=position)
        for link in links:
            fields += [field for field in past_fields([link]) if matches(field) and query.is_in_time(field.ended)]
            position = link.id
            if len(fields) >= limit:
                return DriftHistory(tuple(fields), position)
        is_over = query.since is not None and bool(links) and links[-1].timestamp < query.since
        if len(links) < _BATCH or is_over:
            return DriftHistory(tuple(fields), 0)
    return DriftHistory(tuple(fields), position)


_READ: Final[Mapping[str, Callable[[PastField], Iterable[str]]]] = {
    "app": lambda field: (field.application, field.application.rpartition("/")[2]),
    "ns": lambda field: (field.ref.namespace,),
    "kind": lambda field: (field.ref.kind,),
    "name": lambda field: (field.ref.name,),
    "by": lambda field: (field.manager,),
}
