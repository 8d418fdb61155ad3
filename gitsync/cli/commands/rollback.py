"""``gitsync rollback``."""

from __future__ import annotations

from gitsync.cli.applications import one_application
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.identity import person
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, say
from gitsync.cli.revisions import commit_of_sync
from gitsync.objects.application import parse_application
from gitsync.services.revert import RevertService


def rollback(name: str, namespace: str, to: str, branch: str, author: str, site: Target) -> Exit:
    """Push a revert of the last commit, or of everything after ``to``, and print it."""
    desk = Evaluator(site)
    manifest = one_application(desk.client, namespace, name)
    application = parse_application(manifest)
    undo = RevertService(desk.source, desk.cluster, desk.live)
    undone = undo.commits(application, commit_of_sync(manifest, to))
    user = person()
    reverted = undo.push(application, undone, author=author or f"{user} <{user}@localhost>", branch=branch)
    for commit in undone:
        say(f"undone: {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"pushed: {reverted.commit.id[:12]} {reverted.commit.subject} to {reverted.branch}")
    return Exit.OK
