"""
Build cache: the result of each step of the last build, per resource, for the next build of the same folder.

A step is a function of one resource and of a key that holds its whole configuration, so an unchanged resource at an
unchanged step has the result of last time. A change made outside such a step invalidates the cached entry; later steps
run again.
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
    The results of the last successful build of one folder, and nothing older.

    One build at a time may use it.
    """

    def __init__(self) -> None:
        self.tables: dict[Hashable, Table] = {}


class CachedSteps:
    """The steps of one build, which reuse the results of the last build where there is a cache."""

    def __init__(self, memo: BuildCache | None) -> None:
        self._memo = memo
        self._now: dict[Hashable, Table] = {}

    @property
    def is_remembered(self) -> bool:
        """Whether results are reused and kept."""
        return self._memo is not None

    def forget(self) -> None:
        """Stop using the cache: a result now depends on something that no key holds."""
        self._memo = None

    def keep(self) -> None:
        """Keep the results of this build for the next one."""
        if self._memo is not None:
            self._memo.tables = self._now

    def tables(self, key: Hashable) -> tuple[Table, Table]:
        """Return the results of the last build and of this one under a key."""
        last = self._memo.tables.get(key, {}) if self._memo is not None else {}
        return last, self._now.setdefault(key, {})

    def run(self, key: Hashable, resources: Iterable[Resource], act: Act) -> None:
        """
        Apply ``act`` to resources, or reuse its result for those that it was applied to before.

        ``act`` treats each resource by itself, and depends on nothing that may differ under the same key.
        """
        if self._memo is None:
            act(resources if isinstance(resources, list) else list(resources))
            return
        last, now = self.tables(key)
        uncached: list[tuple[Resource, ResourceVersion | None]] = []
        for resource in resources:
            known = resource.known
            # Two equal resources of one build share the result, too.
            made = known and (now.get(known) or last.get(known))
            if known and made:
                now[known] = made
                # A step that changed nothing gave the same version back.
                if made is not known:
                    resource.restore(made)
            else:
                uncached.append((resource, known))
        act([resource for resource, _ in uncached])
        for resource, known in uncached:
            if known is not None:
                now[known] = resource.snapshot()


def hashable(value: Any) -> Hashable:
    """Return a configuration in a hashable form, equal only for equal values of equal types and order."""
    if isinstance(value, dict):
        return dict, *((hashable(key), hashable(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, *map(hashable, value)
    # With the type: 1, True and "1" are equal or hash alike in Python.
    return type(value), text_of(value)
