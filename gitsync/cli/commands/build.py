"""``gitsync build``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from gitsync.cli.output import BuildFormat, Exit, to_json
from gitsync.errors import GitsyncError, InvalidInput, one_line
from gitsync.objects.manifest import Manifest
from gitsync.render.build import Build
from gitsync.render.build import build as render
from gitsync.render.files import ParseCache
from gitsync.render.yaml_writer import write_all
from gitsync.source.local import Place, open_path


class Wish(NamedTuple):
    """How to render: of which revision (empty: the files on disk), by which renderer, how strictly."""

    revision: str = ""
    renderer: str = "Auto"
    load_restrictions: bool = True

    def render(
        self,
        place: Place,
        cache: ParseCache | None = None,
        *,
        provenance: bool = False,
        faults: list[InvalidInput] | None = None,
    ) -> Build:
        """Return what a place renders to."""
        return render(
            place.tree,
            place.path,
            cache=cache,
            renderer=self.renderer,
            load_restrictions=self.load_restrictions,
            provenance=provenance,
            faults=faults,
        )


def build(paths: Sequence[str], wish: Wish, output: BuildFormat, check: bool) -> Exit:
    """Print the manifests of every path, in order; a path that fails does not keep the others from being tried."""
    failed = False
    manifests: list[Manifest] = []
    cache = ParseCache() if len(paths) > 1 else None
    for path in paths:
        try:
            place = open_path(path, wish.revision)
            wrong = _check(place, wish, cache) if check else ()
            made = wish.render(place, cache) if not wrong else None
        except GitsyncError as error:
            wrong, made = (str(error),), None
        failed = failed or bool(wrong)
        for line in wrong:
            print(f"gitsync: {line}", file=sys.stderr)
        if made is not None:
            for warning in made.warnings:
                print(f"warning: {one_line(warning)}", file=sys.stderr)
            manifests.extend(made.manifests)
    if failed:
        return Exit.REFUSED
    if not check:
        sys.stdout.write(to_json(manifests) + "\n" if output is BuildFormat.JSON else write_all(manifests))
    return Exit.DONE


def _check(place: Place, wish: Wish, cache: ParseCache | None) -> Sequence[str]:
    from gitsync.cli.check import problems  # late: it knows every kind of Kubernetes

    return problems(place, wish, cache)
