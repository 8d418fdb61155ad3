"""The options of a render on the command line."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.build import Build, build
from gitsync.source.local import LocalTarget


class BuildOptions(NamedTuple):
    """
    The Git revision to render (empty: the files on disk), the renderer, and whether loads are restricted.

    ``remotes`` are the URLs of other repositories, with ``*``, whose folders a kustomization may name.
    """

    revision: str = ""
    renderer: str = "Auto"
    load_restrictions: bool = True
    remotes: tuple[str, ...] = ()

    def render(
        self, place: LocalTarget, *, provenance: bool = False, faults: list[InvalidInput] | None = None
    ) -> Build:
        """Return what a path renders to."""
        render = partial(
            build,
            path=place.path,
            renderer=self.renderer,
            load_restrictions=self.load_restrictions,
            provenance=provenance,
            faults=faults,
        )
        if not self.remotes:
            return render(place.tree)
        from gitsync.cli.rendering.remotes import render_with_remotes  # it loads Git, which a plain build does not need

        return render_with_remotes(place.tree, render, self.remotes, faults)
