"""``gitsync suspend`` and its inverse, ``gitsync resume``."""

from __future__ import annotations

from gitsync.cli.applications import connect
from gitsync.cli.options import (
    ApplicationTarget,
    RequestOrigin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import read_view, user_name, user_requests
from gitsync.objects.user import User
from gitsync.services.requests import RequestKind


@command
def suspend(
    target: ApplicationTarget,
    origin: RequestOrigin,
) -> Exit:
    """Stop syncing an Application; its objects stay."""
    client = connect(target.cluster)
    requests, _ = user_requests(client, target.data)
    requests.request(read_view(client, target), RequestKind.SUSPEND, User(user_name(origin.by, "--by")), origin.reason)
    say(f"{target.key} suspended: nothing is written until: gitsync resume {target.name}")
    return Exit.OK


@command
def resume(
    target: ApplicationTarget,
    origin: RequestOrigin,
) -> Exit:
    """Resume syncing a suspended Application."""
    client = connect(target.cluster)
    requests, _ = user_requests(client, target.data)
    requests.request(read_view(client, target), RequestKind.RESUME, User(user_name(origin.by, "--by")), origin.reason)
    say(f"{target.key} resumed")
    return Exit.OK
