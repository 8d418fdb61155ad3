"""``gitsync render``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from gitsync.cli.builds import BuildOptions
from gitsync.cli.options import (
    LoadRestrictor,
    ReleaseName,
    Remotes,
    Renderer,
    RendererName,
    ValueFiles,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput, counted
from gitsync.objects.charts import RELEASE, ChartOptions
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.render.build import Build
from gitsync.render.yaml.writer import write
from gitsync.secrets import is_encrypted
from gitsync.source.local import commit_at, open_path, repository_of
from gitsync.source.work_tree import FolderCommit, commit_folder, push_branch, trailer

_TRAILER: Final = "Gitsync-Rendered-From"
"""The trailer of a commit of rendered manifests; it names the commit that they were rendered from."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9.-]")


@command
def render(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, as for build.")],
    to_branch: Annotated[str, typer.Option("--to-branch", metavar="BRANCH", help="Commit the manifests to it.")],
    folder: Annotated[str, typer.Option(help="The folder in the branch; by default the path of PATH.")] = "",
    push: Annotated[bool, typer.Option("--push", help="Push the branch to origin.")] = False,
    rev: Annotated[str, typer.Option(help="Render this commit, branch or tag.")] = "HEAD",
    renderer: Renderer = RendererName.AUTO,
    load_restrictor: LoadRestrictor = True,
    remote: Remotes = None,
    values: ValueFiles = None,
    release_name: ReleaseName = RELEASE,
) -> Exit:
    """Commit what a folder renders to in a branch, one file for each object, so that it can be reviewed."""
    place = open_path(path, rev)
    top, _ = repository_of(Path(path).resolve())
    if top is None:
        raise InvalidInput("is not inside a Git repository", location=path)
    source = commit_at(path, rev)
    # A branch that is rendered into itself, or into another one by an Application that follows it, would never end.
    if origin := trailer(top, source.id, _TRAILER):
        raise InvalidInput(
            f"{rev} has manifests that were rendered from {origin[:12]} already",
            location="--rev",
            hint="render the commit that they are made of",
        )
    target = (folder or place.path).strip("/")
    if not target or ".." in target.split("/"):
        raise InvalidInput("the root of a branch is not replaced", location="--folder", hint="name a folder in it")
    chart = ChartOptions(release_name, value_files=tuple(values or ()))
    options = BuildOptions(rev, renderer, load_restrictor, tuple(remote or ()), chart)
    files = _files(options.render(place))
    message = f"Render {place.path or '.'} of {source.id[:12]}\n\n{source.subject}\n\n{_TRAILER}: {source.id}\n"
    commit = commit_folder(top, FolderCommit(to_branch, target, files, message))
    if not commit:
        say(f"{to_branch} has {counted(len(files), 'such file')} already")
        return Exit.OK
    say(f"committed {counted(len(files), 'file')} to {to_branch} as {commit[:12]}")
    if push:
        push_branch(top, "origin", to_branch)
        say(f"pushed {to_branch}")
    return Exit.OK


def _files(build: Build) -> dict[str, bytes]:
    """Return a file for each object, which begins with the file that it comes from; refuse what is encrypted."""
    files: dict[str, bytes] = {}
    for manifest, origin in zip(build.manifests, build.sources, strict=True):
        if is_encrypted(manifest):
            raise InvalidInput(
                "it is encrypted by SOPS, which protects the file as it is, and is not written again",
                location=origin.file,
                object=str(ref_of(manifest)),
                hint="keep it in a folder of its own, which an Application follows directly",
            )
        files[_name_of(manifest)] = f"# from {origin.file}\n{write(manifest)}".encode("utf-8", "surrogateescape")
    return files


def _name_of(manifest: Manifest) -> str:
    """Return the name of the file of an object, which no other object has."""
    ref = ref_of(manifest)
    kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
    parts = (kind.lower(), ref.namespace, ref.name)
    # names of RBAC may have a colon or an underline; a percent sign is in no name of Kubernetes
    return "_".join(_NOT_IN_NAMES.sub(lambda found: f"%{ord(found[0]):02x}", part) for part in parts if part) + ".yaml"
