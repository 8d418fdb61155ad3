"""``gitsync build``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gitsync.cli.output import Exit, Format, to_json
from gitsync.errors import GitsyncError
from gitsync.objects.manifest import Manifest
from gitsync.render.build import build as render
from gitsync.render.yaml_writer import write_all
from gitsync.source.local import open_path


def build(
    paths: Sequence[str], revision: str, output: Format, check: bool, renderer: str, load_restrictions: bool
) -> Exit:
    """Print the manifests of every path, in order; a path that fails does not keep the others from being tried."""
    failed = False
    manifests: list[Manifest] = []
    for path in paths:
        try:
            place = open_path(path, revision)
            result = render(place.tree, place.path, renderer=renderer, load_restrictions=load_restrictions)
        except GitsyncError as error:
            print(f"gitsync: {error}", file=sys.stderr)
            failed = True
            continue
        for warning in result.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        manifests.extend(result.manifests)
    if failed:
        return Exit.REFUSED
    if not check:
        sys.stdout.write(to_json(manifests) + "\n" if output is Format.JSON else write_all(manifests))
    return Exit.DONE
