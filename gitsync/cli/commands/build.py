"""``gitsync build``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.builds import BuildOptions, print_builds
from gitsync.cli.options import (
    LoadRestrictor,
    ReleaseName,
    Remotes,
    Renderer,
    RendererName,
    Revision,
    ValueFiles,
    command,
)
from gitsync.cli.output import BuildFormat, Exit
from gitsync.objects.charts import RELEASE, ChartOptions


@command
def build(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Folders with a kustomization, a chart, or plain manifests."),
    ],
    rev: Revision = "",
    output: Annotated[BuildFormat, typer.Option("--output", "-o", help="yaml or json.")] = BuildFormat.YAML,
    check: Annotated[bool, typer.Option("--check", help="Only validate; print every problem.")] = False,
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
    remote: Remotes = None,
    values: ValueFiles = None,
    release_name: ReleaseName = RELEASE,
) -> Exit:
    """Print the manifests that a path renders to, as `kubectl kustomize` does."""
    chart = ChartOptions(release_name, value_files=tuple(values or ()))
    options = BuildOptions(rev, renderer, load_restrictor, tuple(remote or ()), chart)
    return print_builds(paths, options, output, check)
