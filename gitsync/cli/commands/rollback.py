"""``gitsync rollback``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import (
    GitTarget,
    Reason,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import commit_of_sync, user_name, user_requests, view_of
from gitsync.objects.user import User
from gitsync.services.requests import Revert, readable
from gitsync.services.revert import RevertService


@command
def rollback(
    target: GitTarget,
    to: Annotated[
        str,
        typer.Option(help="Revert all commits after this commit, or after the one of this sync; by default the last."),
    ] = "",
    branch: Annotated[str, typer.Option(help="Push to this branch for review instead of the tracked one.")] = "",
    author: Annotated[str, typer.Option(help="The author of the revert: Name <mail>.")] = "",
    reason: Reason = "",
) -> Exit:
    """Push a revert commit to Git; the controller then applies it."""
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, target.namespace, target.name)
    view = view_of(manifest)
    service = RevertService(evaluator.source, evaluator.secrets, evaluator.policies.signers, evaluator.hosts)
    commits = service.commits(readable(view), commit_of_sync(manifest, to))
    user = user_name()
    requests, _ = user_requests(evaluator.client, target.data)
    # Git takes no author without an address
    revert = Revert(commits, author or f"{user} <{user}@localhost>", branch)
    reverted = requests.revert(view, service, revert, User(author or user), reason)
    for commit in commits:
        say(f"reverted: {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"pushed: {reverted.commit.id[:12]} {reverted.commit.subject} to {reverted.branch}")
    if reverted.url:
        say(f"opened {reverted.url}")
    if not branch:
        # a clone that does not have the commit cannot push: Git refuses it as "non-fast-forward"
        say(f"before the next push to {reverted.branch} from a clone: git pull --rebase")
    return Exit.OK
