"""
Memo: what the steps of the last build made of each resource, for the next build of the same folder.

A step is a function of one resource and of a key that holds all it was told. A resource that is still what it was, at
a step that is still told the same, therefore becomes what it became the last time. Whatever changes a resource outside
of such a step makes it one that is not known, and the rest of its way is gone anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

from gitsync.render.resources.resource import Resource, ResourceVersion
from gitsync.render.yaml.scalar_types import text_of

Act: TypeAlias = Callable[[Sequence[Resource]], None]
Table: TypeAlias = dict[ResourceVersion, Any]


class BuildCache:
    """
    What builds of one folder remember: what the last one that succeeded made or took over, and nothing older.

    One build at a time may use it.
    """

    def __init__(self) -> None:
        self.tables: dict[Hashable, Table] = {}


class CachedSteps:
    """The steps of one build, which take over what a memo, where there is one, has of the last build."""

    def __init__(self, memo: BuildCache | None) -> None:
        self._memo = memo
        self._now: dict[Hashable, Table] = {}

    @property
    def is_remembered(self) -> bool:
        """Whether anything is taken over, or kept."""
        return self._memo is not None

    def forget(self) -> None:
        """Go on without the memo: something is in force that no key tells."""
        self._memo = None

    def keep(self) -> None:
        """Leave to the next build what this one used."""
        if self._memo is not None:
            self._memo.tables = self._now

    def tables(self, key: Hashable) -> tuple[Table, Table]:
        """Return what the last build had under a key, and what this one has."""
        last = self._memo.tables.get(key, {}) if self._memo is not None else {}
        return last, self._now.setdefault(key, {})

    def run(self, key: Hashable, resources: Iterable[Resource], act: Act) -> None:
        """
        Do to resources what ``act`` does, or did to each before.

        ``act`` treats each resource by itself, and depends on nothing that may differ under the same key.
        """
        if self._memo is None:
            act(resources if isinstance(resources, list) else list(resources))
            return
        last, now = self.tables(key)
        uncached: list[tuple[Resource, ResourceVersion | None]] = []
        for resource in resources:
            known = resource.known
            made = known and (now.get(known) or last.get(known))
            if known and made:
                now[known] = made
                if made is not known:
                    resource.restore(made)
            else:
                uncached.append((resource, known))
        act([resource for resource, _ in uncached])
        for resource, known in uncached:
            if known is not None:
                now[known] = resource.snapshot()


def hashable(value: Any) -> Hashable:
    """Return what a configuration says, in a form that is equal only for equal values of equal types and order."""
    if isinstance(value, dict):
        return dict, *((hashable(key), hashable(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, *map(hashable, value)
    return type(value), text_of(value)
