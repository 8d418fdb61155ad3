"""Objects of all applications: what can be filtered, facets with counts, the order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final

from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.phase import SyncStatus
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.queries.applications import PerView
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.objects import by_severity, drifted, foreign_fields, severity

NAMES: Final = ("app", "ns", "kind", "name", "sync", "health", "risk", "by", "is")
"""The members of a filter that lists of objects accept."""
FACETS: Final = ("sync", "health", "is", "kind", "ns")
_VALUES = 12
"""Values of one facet that are offered."""


@dataclass(frozen=True, slots=True)
class AppObject:
    """
    An object, and the ``namespace/name`` of the application that holds it.

    ``values`` are those of each member of a filter, ``text`` is searched, ``order`` puts those with problems first.
    """

    application: str
    view: ResourceView
    values: Mapping[str, tuple[str, ...]]
    text: str
    order: tuple[int, str, str, str, str]


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
    return [item for items in _OBJECTS.all_of(views) for item in items]


def _objects_of(view: ApplicationView) -> tuple[AppObject, ...]:
    return tuple(
        AppObject(view.key, item, _values(view.key, item), _text(view.key, item), (*by_severity(item), view.key))
        for item in view.resources
    )


_OBJECTS: Final = PerView(_objects_of)


def matching(objects: Iterable[AppObject], query: Filter) -> list[AppObject]:
    """Return the objects that match, those with problems first."""
    return sorted(_matching(objects, query), key=attrgetter("order"))


def _matching(objects: Iterable[AppObject], query: Filter) -> Iterable[AppObject]:
    return filter(query.matcher(READ, _text_of), objects) if query.members or query.words else objects


def facets(
    objects: Iterable[AppObject], matched: Iterable[AppObject], query: Filter, names: Iterable[str] = FACETS
) -> list[Facet]:
    """
    Return the values of these members among the objects that match without that member; chosen ones always.

    ``matched`` are the objects that match the whole query.
    """
    offered = []
    for name in names:
        is_used = any(member.name == name for member in query.members)
        counts = _counts(_matching(objects, query.without(name)) if is_used else matched, name)
        chosen = [member.value for member in query.members if member.name == name and not member.is_excluded]
        # a chosen value also with a count of zero, so that it can be removed
        values = dict.fromkeys([*chosen, *(value for value, _ in counts.most_common(_VALUES) if value)])
        if len(values) > 1 or chosen:
            offered += [
                Facet(name, value, counts[value], query.toggled(name, value), query.has(name, value))
                for value in values
            ]
    return offered


def _counts(objects: Iterable[AppObject], name: str) -> Counter[str]:
    """Return how many of the objects have each value of a member."""
    # few combinations of values: they are counted without Python for each of many objects
    counts = Counter[str]()
    for values, count in Counter(map(itemgetter(name), map(attrgetter("values"), objects))).items():
        for value in values:
            counts[value] += count
    return counts


def _values(application: str, item: ResourceView) -> dict[str, tuple[str, ...]]:
    """Return the values of an object by the name of a member."""
    return {
        "app": (application, application.rpartition("/")[2]),
        "ns": (item.ref.namespace,),
        "kind": (item.ref.kind,),
        "name": (item.ref.name,),
        "sync": (item.sync,),
        "health": (item.health.health.value,),
        "risk": (item.change.risk.value,) if item.change.is_write else (),
        "by": tuple(_managers(item)),
        "is": tuple(_marks(item)),
    }


def _managers(item: ResourceView) -> set[str]:
    fields = (*drifted(item), *foreign_fields(item))
    return {owner.manager for difference in fields for owner in difference.owners} - {FIELD_MANAGER}


def _marks(item: ResourceView) -> list[str]:
    """Return what ``is:`` finds an object by."""
    marks = []
    if item.sync != SyncStatus.SYNCED:
        marks.append("different")
    if severity(item):
        marks.append("trouble")
    if item.foreign and foreign_fields(item):
        marks.append("foreign")
    if item.running:
        marks.append("running")
    return marks


def _text(application: str, item: ResourceView) -> str:
    ref = item.ref
    return f"{ref.kind} {ref.namespace}/{ref.name} {application} {item.problem} {item.health.message}"


def _text_of(item: AppObject) -> str:
    return item.text


def _reader(name: str) -> Callable[[AppObject], Iterable[str]]:
    return lambda item: item.values[name]


READ: Final[Mapping[str, Callable[[AppObject], Iterable[str]]]] = {name: _reader(name) for name in NAMES}
"""The values of an object by the name of a member."""
