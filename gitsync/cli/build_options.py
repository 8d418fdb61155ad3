"""The options of a render on the command line."""

from __future__ import annotations

from typing import NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.build import Build, build
from gitsync.source.local import LocalTarget


class BuildOptions(NamedTuple):
    """The Git revision to render (empty: the files on disk), the renderer, and whether loads are restricted."""

    revision: str = ""
    renderer: str = "Auto"
    load_restrictions: bool = True

    def render(
        self, place: LocalTarget, *, provenance: bool = False, faults: list[InvalidInput] | None = None
    ) -> Build:
        """Return what a path renders to."""
        return build(
            place.tree,
            place.path,
            renderer=self.renderer,
            load_restrictions=self.load_restrictions,
            provenance=provenance,
            faults=faults,
        )
