"""``gitsync pin`` and its inverse, ``gitsync unpin``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import connect, one_application, pinned_from
from gitsync.cli.comparison import Evaluator
from gitsync.cli.options import (
    NAMESPACE,
    ApplicationTarget,
    GitTarget,
    RequestOrigin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import ClusterWriter, DatabaseRecords, find_commit, user_name
from gitsync.objects.application import parse_application
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import DeclarationRequests, Pin


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
    followed = pinned_from(manifest) or parse_application(manifest).source.revision
    commit = find_commit(evaluator, manifest, revision, followed)
    requests = DeclarationRequests(DatabaseRecords(target.data), SystemClock())
    writer = ClusterWriter(evaluator.client)
    requests.pin(writer, target.key, Pin(commit, followed), User(user_name(origin.by, "--by")), origin.reason)
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
