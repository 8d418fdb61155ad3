"""``gitsync pin`` and its inverse, ``gitsync unpin``."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.applications import connect, one_application, pinned_from
from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.identity import user_name
from gitsync.cli.options import DATA, NAMESPACE, Data, FileUrls, Kubeconfig, Name, Namespace, Reason, Requester, Target
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import ClusterWriter, DatabaseRecords
from gitsync.cli.revisions import find_commit
from gitsync.objects.application import parse_application
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import DeclarationRequests, Pin


@exit_on_error
def pin(
    name: Name,
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="A commit, the number of a sync, a branch or a tag.")
    ],
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
) -> Exit:
    """Follow one commit until unpinned, whatever the branch does."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data, file_urls=allow_file_urls)
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, namespace, name)
    followed = pinned_from(manifest) or parse_application(manifest).source.revision
    commit = find_commit(evaluator, manifest, revision, followed)
    requests = DeclarationRequests(DatabaseRecords(data), SystemClock())
    writer = ClusterWriter(evaluator.client)
    requests.pin(writer, target.key, Pin(commit, followed), User(user_name(by, "--by")), reason)
    option = f" -n {namespace}" if namespace != NAMESPACE else ""
    say(f"{target.key} pinned to {commit.id[:12]} {commit.subject} ({commit.author})")
    say(f"newer commits of {followed} are not applied until: gitsync unpin {name}{option}")
    return Exit.OK


@exit_on_error
def unpin(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Follow the revision again that was followed before the pin."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    followed = pinned_from(one_application(client, namespace, name))
    requests = DeclarationRequests(DatabaseRecords(data), SystemClock())
    requests.unpin(ClusterWriter(client), target.key, followed, User(user_name(by, "--by")), reason)
    say(f"{target.key} follows {followed} again")
    return Exit.OK
