"""``gitsync images``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.edits import CommandEdits, EditOptions
from gitsync.cli.options import GitTarget, Output, Reason, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.edit.images import ImageChoice
from gitsync.errors import GitsyncError
from gitsync.integrations.registry import Registries, docker_passwords
from gitsync.objects.application import parse_application
from gitsync.server.formatting import age
from gitsync.services.updates import UpdateKind

_COLUMNS = ("object", "container", "image", "declared", "running", "newest", "age", "state")
_DIGEST = 19
"""Characters of a digest in a table: sha256 and twelve digits."""


@command
def images(
    target: GitTarget,
    update: Annotated[bool, typer.Option("--update", help="Propose the newer tags as one change of Git.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --update: print the edits alone.")] = False,
    branch: Annotated[str, typer.Option(help="Push the commit to this branch.")] = "",
    author: Annotated[str, typer.Option(help="The author of the commit: Name <mail>.")] = "",
    reason: Reason = "",
    registry_config: Annotated[
        Path, typer.Option("--registry-config", help="The config file of a container engine, which signs in.")
    ] = Path("~/.docker/config.json"),
    output: Output = Format.TABLE,
) -> Exit:
    """
    List the images that `spec.images` follows, with the newest tags of their registries. Exit code 1: one is newer, or
    with --update, could not be written.
    """
    evaluator = Evaluator(target)
    app = parse_application(one_application(evaluator.client, target.namespace, target.name))
    registries = Registries(docker_passwords(registry_config.expanduser()))
    edits = CommandEdits(evaluator, target, registries)
    found = edits.updates.find(UpdateKind.IMAGES, app)
    newer = [choice for choice in found.images if choice.is_newer]
    if not update:
        if found.images or output is not Format.TABLE:
            rows = [_row(choice, _age(registries, choice)) for choice in found.images]
            show(rows, _COLUMNS, output, key="object")
        else:
            say("spec.images follows no image that is declared")
        return Exit.DIFFERENT if newer else Exit.OK
    if not newer:
        say("no image is newer", "green")
        return Exit.OK
    return edits.propose(found, EditOptions(branch, author, reason, dry_run))


def _age(registries: Registries, choice: ImageChoice) -> str:
    """Return how long ago the newest image was built, empty where its registry does not tell."""
    # the list is of use without it, such as where only tags can be read
    with suppress(GitsyncError):
        return age(registries.created(choice.declared.image.name, choice.newest)) if choice.newest else ""
    return ""


def _row(choice: ImageChoice, built: str) -> dict[str, str]:
    declared = choice.declared
    state = choice.problem or ("newer" if choice.is_newer else "newest")
    moved = choice.moved[:_DIGEST]
    return {
        "object": str(declared.ref),
        "container": declared.container,
        "image": declared.image.name,
        "declared": declared.image.tag or declared.image.digest,
        "running": choice.running[:_DIGEST],
        "newest": choice.newest,
        "age": built,
        "state": f"{state}; the declared tag moved to {moved}" if moved else state,
    }
