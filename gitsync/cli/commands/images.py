"""``gitsync images``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.edits import EditedFolder, EditOptions
from gitsync.cli.options import GitTarget, Output, Reason, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.edit.adopt import IMAGES
from gitsync.edit.images import ImageChoice, choose, declared_images, image_values, reverted_tags
from gitsync.errors import InvalidInput
from gitsync.integrations.registry import Registries, docker_passwords
from gitsync.objects.application import parse_application
from gitsync.objects.patterns import matches

_COLUMNS = ("object", "container", "image", "declared", "newest", "state")
_COMMITS = 200
"""Commits of the branch that are searched for updates that were reverted."""


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
    folder = EditedFolder.newest(evaluator, app)
    declared = list(declared_images(folder.build.manifests, app.images))
    _check_allowed(evaluator.policies.of(app).images, [item.image.name for item in declared])
    registries = Registries(docker_passwords(registry_config.expanduser()))
    tags = {name: registries.tags(name) for name in sorted({item.image.name for item in declared})}
    messages = [commit.message for commit in evaluator.source.commits(app.source, folder.commit, limit=_COMMITS)]
    choices = [choose(item, tags[item.image.name], reverted_tags(messages, item)) for item in declared]
    newer = [choice for choice in choices if choice.is_newer]
    if not update:
        if choices or output is not Format.TABLE:
            show([_row(choice) for choice in choices], _COLUMNS, output, key="object")
        else:
            say("spec.images follows no image that is declared")
        return Exit.DIFFERENT if newer else Exit.OK
    if not newer:
        say("no image is newer", "green")
        return Exit.OK
    digests = {
        f"{choice.declared.image.name}:{choice.newest}": registries.digest(choice.declared.image.name, choice.newest)
        for choice in newer
        if choice.has_digest
    }
    values = list(image_values(newer, digests))
    return folder.propose(target, values, IMAGES, EditOptions(branch, author, reason, dry_run))


def _check_allowed(allowed: tuple[str, ...], names: list[str]) -> None:
    """Raise InvalidInput for an image that the operator's policies do not let be updated, before any request."""
    for name in names:
        if allowed and not any(matches(name, pattern) for pattern in allowed):
            raise InvalidInput(
                f"image {name} is not allowed by the policy", location="spec.images", hint="see spec.allow.images of it"
            )


def _row(choice: ImageChoice) -> dict[str, str]:
    declared = choice.declared
    return {
        "object": str(declared.ref),
        "container": declared.container,
        "image": declared.image.name,
        "declared": declared.image.tag or declared.image.digest,
        "newest": choice.newest,
        "state": choice.problem or ("newer" if choice.is_newer else "newest"),
    }
