"""``gitsync promote``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.edits import CommandEdits, EditOptions
from gitsync.cli.options import GitTarget, Reason, command
from gitsync.cli.output import Exit, say
from gitsync.objects.application import parse_application
from gitsync.services.updates import UpdateKind


@command
def promote(
    target: GitTarget,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be taken, and write nothing.")] = False,
    branch: Annotated[str, typer.Option(help="Push the commit to this branch.")] = "",
    author: Annotated[str, typer.Option(help="The author of the commit: Name <mail>.")] = "",
    reason: Reason = "",
) -> Exit:
    """
    Propose the images and fields of the environment before, as `spec.promotion` says. Exit code 1: nothing can be
    taken yet, or not all.
    """
    evaluator = Evaluator(target)
    app = parse_application(one_application(evaluator.client, target.namespace, target.name))
    edits = CommandEdits(evaluator, target)
    update = edits.updates.find(UpdateKind.PROMOTION, app)
    if update.waits:
        say(update.waits, "yellow")
        return Exit.DIFFERENT
    if not (update.adoption.values or update.adoption.refused):
        say(f"{target.name} has what {update.origin} has", "green")
        return Exit.OK
    return edits.propose(update, EditOptions(branch, author, reason, dry_run))
