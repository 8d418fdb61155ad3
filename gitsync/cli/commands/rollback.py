"""``gitsync rollback``."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path

from gitsync.cli.applications import connect, one_application
from gitsync.cli.oneshot import Reading, open_source
from gitsync.cli.output import Exit, say
from gitsync.cluster.kubernetes import Kubernetes
from gitsync.errors import InvalidInput
from gitsync.objects.application import Application, parse_application
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.record import Commit
from gitsync.sync.credentials import credentials_of

_LOOK_BACK = 200


def rollback(
    name: str, namespace: str, to: str, branch: str, author: str, kubeconfig: str, data: Path, file_urls: bool
) -> Exit:
    """Push a revert of the last commit, or of everything after ``to``, and print it."""
    client = connect(kubeconfig)
    manifest = one_application(client, namespace, name)
    application = parse_application(manifest)
    source = open_source(data, allow_file_urls=file_urls)
    cluster = Kubernetes(client)
    credentials = credentials_of(application, cluster, Reading(cluster))
    head = source.resolve(application.source, credentials)
    source.snapshot(application.source, credentials, head)
    commits = source.commits(application.source, head, limit=_LOOK_BACK)
    undone = _after(commits, _target(to, manifest), application) if to else commits[:1]
    reverted = source.revert(
        application.source,
        credentials,
        [commit.id for commit in undone],
        author=author or f"{getpass.getuser()} <{getpass.getuser()}@localhost>",
        branch=branch,
    )
    for commit in undone:
        say(f"undone: {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"pushed: {reverted.commit.id[:12]} {reverted.commit.subject} to {reverted.branch}")
    return Exit.DONE


def _target(to: str, manifest: Manifest) -> str:
    """Return the commit that ``to`` names: an id or its beginning, or the number of a history entry."""
    for entry in at(manifest, "status", "history", default=[]):
        if str(entry.get("id")) == to:
            return str(entry.get("revision", ""))
    return to


def _after(commits: Sequence[Commit], target: str, application: Application) -> Sequence[Commit]:
    """Return the commits after the target, newest first."""
    for index, commit in enumerate(commits):
        if len(target) >= 7 and commit.id.startswith(target):
            if index == 0:
                raise InvalidInput(f"{target[:12]} is the newest commit, so there is nothing to undo", where="--to")
            return commits[:index]
    raise InvalidInput(
        f"{target!r} is not among the last {len(commits)} commits of {application.source.revision}",
        where="--to",
        cure="give a commit id of at least 7 characters or a number from `gitsync history`",
    )
