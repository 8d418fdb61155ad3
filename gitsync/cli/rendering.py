"""The commands that read manifests from files or Git, and need no cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import LoadRestrictor, Output, Renderer, RendererName, Revision
from gitsync.cli.output import BuildFormat, Exit, Format

app = typer.Typer(rich_markup_mode=None)


@app.command()
@exit_on_error
def build(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Folders with a kustomization file, or with plain manifests.")
    ],
    rev: Revision = "",
    output: Annotated[BuildFormat, typer.Option("--output", "-o", help="yaml or json.")] = BuildFormat.YAML,
    check: Annotated[bool, typer.Option("--check", help="Only say what is wrong, all of it.")] = False,
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
) -> Exit:
    """Print the manifests that a path renders to, as `kubectl kustomize` does."""
    from gitsync.cli.commands.build import BuildOptions, build

    return build(paths, BuildOptions(rev, renderer, load_restrictor), output, check)


@app.command()
@exit_on_error
def explain(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, as for build.")],
    object: Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object; all when left out.")] = "",
    field: Annotated[
        str, typer.Argument(metavar="FIELD", help="A field such as spec.replicas; all when left out.")
    ] = "",
    rev: Revision = "",
    output: Output = Format.TABLE,
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
) -> Exit:
    """Say which file and line set a field of a rendered object, and through which steps it went."""
    from gitsync.cli.commands.build import BuildOptions
    from gitsync.cli.commands.explain import explain

    return explain(path, object, field, BuildOptions(rev, renderer, load_restrictor), output)
