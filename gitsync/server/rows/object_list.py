"""Objects of all applications: what can be filtered, facets with counts, the order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gitsync.objects.keys import FIELD_MANAGER
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.rows.objects import by_severity, drifted, foreign_fields, severity
from gitsync.server.rows.query import Query

NAMES: Final = ("app", "ns", "kind", "name", "sync", "health", "risk", "by", "is")
"""The members of a filter that lists of objects accept."""
FACETS: Final = ("sync", "health", "is", "kind", "ns")
_VALUES = 12
"""Values of one facet that are offered."""


class AppObject(NamedTuple):
    """An object, and the ``namespace/name`` of the application that holds it."""

    application: str
    view: ResourceView


@dataclass(frozen=True, slots=True)
class Facet:
    """One value that narrows a list: the filter with it added or removed, its count, and whether it is chosen."""

    name: str
    value: str
    count: int
    query: str
    is_chosen: bool


def all_objects(views: Iterable[ApplicationView]) -> list[AppObject]:
    """Return the objects of all applications."""
    return [AppObject(view.key, item) for view in views for item in view.resources]


def matching(objects: Iterable[AppObject], query: Query) -> list[AppObject]:
    """Return the objects that match, those with problems first."""
    matches = query.matcher(READ, _text)
    return sorted(filter(matches, objects), key=lambda item: (*by_severity(item.view), item.application))


def facets(objects: Iterable[AppObject], query: Query, names: Iterable[str] = FACETS) -> list[Facet]:
    """Return the values of these members among the objects that match without that member; chosen ones always."""
    known = list(objects)
    everything = list(filter(query.matcher(READ, _text), known))
    found = []
    for name in names:
        is_used = any(member.name == name for member in query.members)
        rows = filter(query.without(name).matcher(READ, _text), known) if is_used else everything
        counts = Counter(value for row in rows for value in READ[name](row))
        chosen = [member.value for member in query.members if member.name == name and not member.is_excluded]
        values = dict.fromkeys([*chosen, *(value for value, _ in counts.most_common(_VALUES) if value)])
        if len(values) > 1 or chosen:
            found += [
                Facet(name, value, counts[value], query.toggled(name, value), query.has(name, value))
                for value in values
            ]
    return found


def _managers(item: AppObject) -> set[str]:
    fields = (*drifted(item.view), *foreign_fields(item.view))
    return {owner.manager for difference in fields for owner in difference.owners} - {FIELD_MANAGER}


def _marks(item: AppObject) -> list[str]:
    """Return what ``is:`` finds an object by."""
    marks = []
    if item.view.sync != "Synced":
        marks.append("different")
    if severity(item.view):
        marks.append("trouble")
    if item.view.foreign and foreign_fields(item.view):
        marks.append("foreign")
    return marks


def _text(item: AppObject) -> str:
    ref, view = item.view.ref, item.view
    return f"{ref.kind} {ref.namespace}/{ref.name} {item.application} {view.problem} {view.health.message}"


READ: Final[Mapping[str, Callable[[AppObject], Iterable[str]]]] = {
    "app": lambda item: (item.application, item.application.rpartition("/")[2]),
    "ns": lambda item: (item.view.ref.namespace,),
    "kind": lambda item: (item.view.ref.kind,),
    "name": lambda item: (item.view.ref.name,),
    "sync": lambda item: (item.view.sync,),
    "health": lambda item: (item.view.health.health.value,),
    "risk": lambda item: (item.view.change.risk.value,) if item.view.change.is_write else (),
    "by": _managers,
    "is": _marks,
}
"""The values of an object by the name of a member."""
