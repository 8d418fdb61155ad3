"""``gitsync push``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from gitsync.cli.options import command, load_settings
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput, counted
from gitsync.integrations.artifacts import ArtifactFile, push_artifact
from gitsync.integrations.http import Downloads
from gitsync.integrations.registry import Registries, docker_passwords, is_loopback, speaks_tls
from gitsync.objects.tree import Entry, Tree
from gitsync.ports import Credentials
from gitsync.source.authentication import trusted_certificates
from gitsync.source.local import commit_at, open_path
from gitsync.source.validation import PlainHosts

_TARGET: Final = re.compile(r"oci://(?P<name>[^@\s]+/[^@:\s]+):(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127})")


@command
def push(
    target: Annotated[str, typer.Argument(help="Where it is pushed: oci://HOST/REPOSITORY:TAG.")],
    path: Annotated[str, typer.Argument(help="The folder whose files are pushed.")] = ".",
    revision: Annotated[str, typer.Option("--rev", help="The commit, branch or tag whose files are pushed.")] = "HEAD",
    registry_config: Annotated[
        Path, typer.Option("--registry-config", help="The config file of a container engine, which signs in.")
    ] = Path("~/.docker/config.json"),
) -> Exit:
    """Push the files of a folder in Git to an OCI registry, as a source of Applications."""
    match = _TARGET.fullmatch(target)
    if match is None:
        raise InvalidInput(f"{target!r} is not a target", hint="write oci://HOST/REPOSITORY:TAG")
    place = open_path(path, revision)
    # a folder on the disk may be in no commit yet; the root of a tree has no entry
    is_committed = not place.path or place.tree.entry(place.path) is Entry.FOLDER
    files = list(_files(place.tree, place.path)) if is_committed else []
    if not files:
        raise InvalidInput(f"the folder has no files in {revision}", location=path, hint="commit them first")
    settings = load_settings()
    hosts = PlainHosts.parse("", settings.git_http_sign_in)
    downloads = Downloads(
        trusted_certificates(Credentials(), settings.git_ca),
        # as container engines do, this machine without TLS too
        lambda url: (is_loopback(url) and not _has_tls(url)) or hosts.allow_credentials(url),
        settings.git_seconds,
    )
    registries = Registries(docker_passwords(registry_config.expanduser()), downloads)
    commit = commit_at(path, revision)
    digest = push_artifact(registries, match["name"], match["tag"], files, commit)
    say(f"pushed {counted(len(files), 'file')} of {commit.id[:12]} to oci://{match['name']}:{match['tag']}@{digest}")
    return Exit.OK


def _has_tls(url: str) -> bool:
    parts = urlsplit(url)
    return speaks_tls(parts.hostname or "", parts.port or 443)


def _files(tree: Tree, folder: str) -> Iterator[ArtifactFile]:
    """Yield the files and links below a folder, by their paths in it."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        for name in tree.names(f"{folder}/{inside}".strip("/")):
            path = f"{inside}/{name}".lstrip("/")
            real = f"{folder}/{path}".lstrip("/")
            entry = tree.entry(real)
            if entry is Entry.FOLDER:
                waiting.append(path)
            elif entry is Entry.SUBMODULE:
                raise InvalidInput("is a Git submodule, and submodules are not read", location=real)
            else:
                yield ArtifactFile(path, tree.read(real), entry is Entry.LINK)
