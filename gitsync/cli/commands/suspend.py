"""``gitsync suspend`` and its inverse, ``gitsync resume``."""

from __future__ import annotations

from gitsync.cli.applications import connect
from gitsync.cli.errors import exit_on_error
from gitsync.cli.identity import user_name
from gitsync.cli.options import DATA, NAMESPACE, Data, Kubeconfig, Name, Namespace, Reason, Requester, Target
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import read_view, user_requests
from gitsync.objects.user import User
from gitsync.services.requests import RequestKind


@exit_on_error
def suspend(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Stop syncing an Application; its objects stay."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    requests, _ = user_requests(client, data)
    requests.request(read_view(client, target), RequestKind.SUSPEND, User(user_name(by, "--by")), reason)
    say(f"{target.key} suspended: nothing is written until: gitsync resume {name}")
    return Exit.OK


@exit_on_error
def resume(
    name: Name,
    namespace: Namespace = NAMESPACE,
    reason: Reason = "",
    by: Requester = "",
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """Resume syncing a suspended Application."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    requests, _ = user_requests(client, data)
    requests.request(read_view(client, target), RequestKind.RESUME, User(user_name(by, "--by")), reason)
    say(f"{target.key} resumed")
    return Exit.OK
