"""``gitsync rollback``."""

from __future__ import annotations

import getpass
from pathlib import Path

from gitsync.cli.applications import connect, one_application
from gitsync.cli.oneshot import Reading, open_source
from gitsync.cli.output import Exit, say
from gitsync.cluster.kubernetes import Kubernetes
from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest, at
from gitsync.sync.undo import Undo


def rollback(
    name: str, namespace: str, to: str, branch: str, author: str, kubeconfig: str, data: Path, file_urls: bool
) -> Exit:
    """Push a revert of the last commit, or of everything after ``to``, and print it."""
    client = connect(kubeconfig)
    manifest = one_application(client, namespace, name)
    application = parse_application(manifest)
    cluster = Kubernetes(client)
    undo = Undo(open_source(data, allow_file_urls=file_urls), cluster, Reading(cluster))
    undone = undo.commits(application, _target(to, manifest))
    user = getpass.getuser()
    reverted = undo.push(application, undone, author=author or f"{user} <{user}@localhost>", branch=branch)
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
