"""``gitsync pin``, its inverse ``gitsync unpin``, and ``gitsync rollback``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import connect, one_application, pinned_from
from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import NAMESPACE, ApplicationTarget, GitTarget, Reason, RequestOrigin, command
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import (
    ClusterWriter,
    DatabaseRecords,
    find_commit,
    find_joined_commit,
    find_revert_target,
    user_name,
    user_requests,
    view_of,
)
from gitsync.objects.application import SourceGroup, app_of_part, parse_application
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import DeclarationRequests, Pin, Revert, readable
from gitsync.services.revert import RevertService


@command
def pin(
    target: GitTarget,
    origin: RequestOrigin,
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="A commit, the number of a sync, a branch or a tag.")
    ],
) -> Exit:
    """Follow one commit until unpinned, whatever the branch does."""
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, target.namespace, target.name)
    # a second pin remembers the branch, not the commit of the first one
    app = parse_application(manifest)
    followed = pinned_from(manifest) or app.source.revision
    if isinstance(app.source, SourceGroup):
        commit, commits = find_joined_commit(manifest, revision)
    else:
        commit = find_commit(evaluator, manifest, revision, followed)
        commits = {}
    requests = DeclarationRequests(DatabaseRecords(target.data), SystemClock())
    writer = ClusterWriter(evaluator.client)
    requests.pin(writer, target.key, Pin(commit, followed, commits), User(user_name(origin.by, "--by")), origin.reason)
    option = f" -n {target.namespace}" if target.namespace != NAMESPACE else ""
    say(f"{target.key} pinned to {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"newer commits of {followed} are not applied until: gitsync unpin {target.name}{option}")
    return Exit.OK


@command
def unpin(
    target: ApplicationTarget,
    origin: RequestOrigin,
) -> Exit:
    """Follow the revision again that was followed before the pin."""
    client = connect(target.cluster)
    followed = pinned_from(one_application(client, target.namespace, target.name))
    requests = DeclarationRequests(DatabaseRecords(target.data), SystemClock())
    requests.unpin(ClusterWriter(client), target.key, followed, User(user_name(origin.by, "--by")), origin.reason)
    say(f"{target.key} follows {followed} again")
    return Exit.OK


@command
def rollback(
    target: GitTarget,
    to: Annotated[
        str,
        typer.Option(help="Revert all commits after this commit, or after the one of this sync; by default the last."),
    ] = "",
    branch: Annotated[str, typer.Option(help="Push to this branch for review instead of the tracked one.")] = "",
    source: Annotated[
        str, typer.Option(help="The one of several sources whose commits to revert; by default the one that changed.")
    ] = "",
    author: Annotated[str, typer.Option(help="The author of the revert: Name <mail>.")] = "",
    reason: Reason = "",
) -> Exit:
    """Push a revert commit to Git; the controller then applies it."""
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, target.namespace, target.name)
    view = view_of(manifest)
    service = RevertService(evaluator.source, evaluator.secrets, evaluator.policies.signers, evaluator.hosts)
    wanted = find_revert_target(manifest, source, to)
    commits = service.commits(app_of_part(readable(view), wanted.source), wanted.after)
    user = user_name()
    requests, _ = user_requests(evaluator.client, target.data)
    # Git takes no author without an address
    revert = Revert(commits, author or f"{user} <{user}@localhost>", branch, source=wanted.source)
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
