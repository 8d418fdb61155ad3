"""``gitsync suspend`` and its inverse, ``gitsync resume``."""

from __future__ import annotations

from gitsync.cli.applications import set_suspended
from gitsync.cli.errors import exit_on_error
from gitsync.cli.identity import audit_request, user_name
from gitsync.cli.options import DATA, NAMESPACE, Data, Kubeconfig, Name, Namespace, Reason, Requester, Target
from gitsync.cli.output import Exit, say


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
    audit_request(target, "suspend", user_name(by, "--by"), reason)
    set_suspended(target, True)
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
    audit_request(target, "resume", user_name(by, "--by"), reason)
    set_suspended(target, False)
    say(f"{target.key} resumed")
    return Exit.OK
