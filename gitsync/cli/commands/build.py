"""``gitsync build``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.builds import BuildOptions, print_builds
from gitsync.cli.options import LoadRestrictor, Remotes, Renderer, RendererName, Revision, command
from gitsync.cli.output import BuildFormat, Exit


@command
def build(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Folders with a kustomization file, or with plain manifests.")
    ],
    rev: Revision = "",
    output: Annotated[BuildFormat, typer.Option("--output", "-o", help="yaml or json.")] = BuildFormat.YAML,
    check: Annotated[bool, typer.Option("--check", help="Only validate; print every problem.")] = False,
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
    remote: Remotes = None,
) -> Exit:
    """Print the manifests that a path renders to, as `kubectl kustomize` does."""
    return print_builds(paths, BuildOptions(rev, renderer, load_restrictor, tuple(remote or ())), output, check)
