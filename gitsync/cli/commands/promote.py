"""``gitsync promote``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.edits import EditedFolder, EditOptions
from gitsync.cli.options import GitTarget, Reason, command
from gitsync.cli.output import Exit, say
from gitsync.edit.adopt import PROMOTE
from gitsync.edit.promotion import promoted_values
from gitsync.errors import InvalidInput
from gitsync.kube.times import seconds_of
from gitsync.objects.application import parse_application
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.phase import Phase


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
    promotion = app.promotion
    if promotion is None:
        raise InvalidInput(
            "spec.promotion is absent", object=f"Application {target.key}", hint="name what is promoted from where"
        )
    manifest = one_application(evaluator.client, target.namespace, promotion.from_)
    source_app = parse_application(manifest)
    waits = waiting_reason(manifest, promotion.after, time.time())
    if waits:
        say(f"{promotion.from_}: {waits}", "yellow")
        return Exit.DIFFERENT
    applied = str(at(manifest, "status", "revision", "applied"))
    source = EditedFolder(evaluator, source_app, applied)
    folder = EditedFolder.newest(evaluator, app)
    name = f"{promotion.from_} at {applied[:12]}"
    values = list(promoted_values(source.build, folder.build, promotion.take, name))
    if not values:
        say(f"{target.name} has what {name} has", "green")
        return Exit.OK
    return folder.propose(target, values, PROMOTE, EditOptions(branch, author, reason, dry_run))


def waiting_reason(manifest: Manifest, after: float, now: float) -> str:
    """Return why an Application cannot be promoted yet, empty where it was Synced and Healthy for long enough."""
    status = at(manifest, "status", default={})
    applied = at(status, "revision", "applied", default="")
    if not applied:
        return "nothing was applied yet"
    if applied != at(status, "revision", "fetched", default=applied) or at(status, "pinned"):
        return "it does not run the newest commit of its branch"
    if Phase.of(status) is not Phase.SYNCED or status.get("health") != Health.HEALTHY.value:
        return f"it is {Phase.of(status).value} and {status.get('health') or Health.UNKNOWN.value}"
    # another commit, drift and bad health start the time again
    begin = max(seconds_of(status.get("phaseSince")), seconds_of(status.get("healthSince")))
    left = begin + after - now
    return f"it has to be Synced and Healthy for {left:.0f} s more" if after and left > 0 else ""
