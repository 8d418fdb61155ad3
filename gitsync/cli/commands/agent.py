"""``gitsync agent``."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from gitsync.agents.keys import ABORT, APPROVE, BACKUP, PROMOTE, RESTARTED_AT
from gitsync.cli.agent_revisions import show_prompts, show_revisions
from gitsync.cli.applications import connect
from gitsync.cli.dashboard import connect as dashboard
from gitsync.cli.errors import exit_on_error
from gitsync.cli.identity import audit_request, user_name
from gitsync.cli.options import DATA, Data, Kubeconfig, Output, Reason, Requester, ServerUrl, Target, TokenFile
from gitsync.cli.output import Exit, Format, say
from gitsync.cluster.client import Client, segment
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest, at


class AgentAction(StrEnum):
    """What a user requests of an Agent."""

    PROMOTE = "promote"
    ABORT = "abort"
    RESTART = "restart"
    APPROVE = "approve"
    BACKUP = "backup"
    HISTORY = "history"
    PROMPTS = "prompts"


_ANNOTATIONS = {AgentAction.PROMOTE: PROMOTE, AgentAction.ABORT: ABORT}


@exit_on_error
def agent(
    action: Annotated[
        AgentAction,
        typer.Argument(metavar="ACTION", help="promote, abort, restart, approve, backup, history or prompts."),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The Agent.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the Agent.")] = "default",
    system: Annotated[bool, typer.Option("--system", help="NAME is a MultiAgentSystem; only for approve.")] = False,
    before: Annotated[str, typer.Option("--before", metavar="VERSION", help="Compare from this version.")] = "",
    after: Annotated[str, typer.Option("--after", metavar="VERSION", help="Compare with this one; that of now.")] = "",
    reason: Reason = "",
    by: Requester = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    server: ServerUrl = "",
    token_file: TokenFile = None,
    data: Data = DATA,
) -> Exit:
    """Promote, abort, restart or back up an Agent, approve its plan, list revisions or compare prompts."""
    if action is AgentAction.PROMPTS:
        show_prompts(dashboard(server, token_file, data), f"{namespace}/{name}", (before, after), output)
        return Exit.OK
    if system and action is not AgentAction.APPROVE:
        raise InvalidInput(f"a MultiAgentSystem has nothing to {action.value}", hint="name one of its Agents")
    kind = "MultiAgentSystem" if system else "Agent"
    target = Target(name=f"{kind.lower()}:{name}", namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    path = f"/apis/{AGENTS_GROUP}/{VERSION}/namespaces/{segment(namespace)}/{kind.lower()}s/{segment(name)}"
    manifest = _read(client, path, f"{kind} {namespace}/{name}")
    if action is AgentAction.HISTORY:
        show_revisions(client, manifest, output)
        return Exit.OK
    key, value = _annotation(action, manifest, f"{kind} {namespace}/{name}")
    audit_request(target, f"agent {action.value}", user_name(by, "--by"), reason)
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "annotations": {key: value}}
    body = {"apiVersion": f"{AGENTS_GROUP}/{VERSION}", "kind": kind, "metadata": metadata}
    # a field manager per action: one that omits an annotation that it set before removes it
    client.apply(path, body, {"fieldManager": f"gitsync-agent-{action.value}", "force": "true"})
    say(f"{kind} {namespace}/{name}: {action.value} {value}")
    return Exit.OK


def _read(client: Client, path: str, subject: str) -> Manifest:
    try:
        found: Manifest = client.get(path)
    except Rejected as error:
        if error.code == 404:
            raise InvalidInput(
                "does not exist", object=subject, hint="list them by kubectl get agents,mas -A"
            ) from error
        raise
    return found


def _annotation(action: AgentAction, manifest: Manifest, subject: str) -> tuple[str, str]:
    """Return the annotation that requests the action; raise InvalidInput where there is nothing to do."""
    if action is AgentAction.RESTART:
        return RESTARTED_AT, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if action is AgentAction.BACKUP:
        if not at(manifest, "spec", "backup"):
            raise InvalidInput("has no spec.backup", object=subject, hint="see docs/agents.md")
        return BACKUP, datetime.now(UTC).strftime("%Y%m%d%H%M%S")
    if action is AgentAction.APPROVE:
        value = str(at(manifest, "status", "plan", "id", default=""))
        if not value:
            raise InvalidInput("no plan waits for approval", object=subject, hint="see its status.conditions")
        return APPROVE, value
    return _ANNOTATIONS[action], _revision(manifest, subject)


def _revision(manifest: Manifest, subject: str) -> str:
    """Return the revision that a rollout brings; raise InvalidInput where there is none that does not serve yet."""
    found = str(at(manifest, "status", "rollout", "revision", default=""))
    if not found:
        raise InvalidInput("no rollout is in progress", object=subject, hint="see its status.conditions")
    if found == at(manifest, "status", "currentRevision"):
        hint = "to return to the revision before, revert its change in Git"
        raise InvalidInput(f"revision {found} is the current one already", object=subject, hint=hint)
    return found
