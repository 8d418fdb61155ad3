"""Index of the resources of a kustomization by each name that they have, or had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.render.resources.resource import Resource
from gitsync.render.resources.scopes import Scopes


class NameIndex:
    """Find resources by name; indexed once, until a step may rename one."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._found: dict[str, list[Resource]] | None = None

    def forget(self) -> None:
        """Drop the index, since names may have changed."""
        self._found = None

    def among(self, resources: Sequence[Resource], selector: Mapping[str, Any]) -> Sequence[Resource]:
        """Return the resources, in order, that have or had the name of a selector; all where it has none."""
        name = selector.get("name")
        if not name:
            return resources
        if self._found is None:
            self._found = {}
            for resource in resources:
                for known in {self._scopes.id_of(resource).name, *(before.name for before in resource.previous)}:
                    self._found.setdefault(known, []).append(resource)
        return self._found.get(name, ())
