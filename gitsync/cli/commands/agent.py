"""``gitsync agent``: what a user requests of one Agent, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.agents.keys import ABORT, APPROVE, BACKUP, PROMOTE, RESTARTED_AT, RETRY, STOPPED, UPGRADE
from gitsync.agents.rollout.state import RolloutStage
from gitsync.agents.waves import DEFAULT_LIMIT, WaveLimit
from gitsync.cli.agent_bom import bom_rows, show_bom
from gitsync.cli.agent_contracts import (
    agent_of_config,
    agents_of_folder,
    lock_file,
    observe,
    read_lock,
    report_check,
    show_contract,
    write_lock,
    write_summary,
)
from gitsync.cli.agent_revisions import (
    show_budget,
    show_prompts,
    show_quality,
    show_revisions,
    show_upgrades,
    upgrade_rows,
)
from gitsync.cli.applications import connect
from gitsync.cli.dashboard import DashboardOptions
from gitsync.cli.options import ApplicationTarget, ClusterTarget, Output, RequestOrigin, command, command_group
from gitsync.cli.output import Exit, Format, say
from gitsync.cli.requests import DatabaseRecords, audit_request, user_name
from gitsync.cluster.client import Client, segment
from gitsync.errors import InvalidInput, Rejected, WrongState
from gitsync.gate.policy import Policy
from gitsync.integrations.prometheus import Prometheus
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.reviews import Approval, ReviewService, held_plan

agent = command_group("Promote, abort, restart or back up an Agent, approve plans, list revisions, lock contracts.")
AgentName = Annotated[str, typer.Argument(metavar="NAME", help="The Agent.")]
AgentNamespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the Agent.")]
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTarget(ClusterTarget):
    """An Agent of a cluster."""

    name: AgentName
    namespace: AgentNamespace = _NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsTarget(ClusterTarget):
    """One Agent, all of a namespace, or all of a cluster."""

    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only this Agent.")] = ""
    namespace: AgentNamespace = _NAMESPACE
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="The Agents of all namespaces.")] = False


@dataclass(frozen=True, slots=True)
class LiveAgent:
    """An Agent or a MultiAgentSystem in the cluster, and the client that read it."""

    client: Client
    place: AgentTarget
    kind: str
    manifest: Manifest

    def __str__(self) -> str:
        return f"{self.kind} {self.place.namespace}/{self.place.name}"

    def request(self, action: str, origin: RequestOrigin, annotation: str, value: str) -> Exit:
        """Record a request in the audit, and make it by an annotation."""
        self.audit(action, origin)
        self.annotate(action, annotation, value)
        say(f"{self}: {action} {value}".rstrip())
        return Exit.OK

    def audit(self, action: str, origin: RequestOrigin) -> None:
        """Record a request in the audit."""
        audited = ApplicationTarget(
            name=f"{self.kind.lower()}:{self.place.name}",
            namespace=self.place.namespace,
            kubeconfig=self.place.kubeconfig,
            data=self.place.data,
        )
        audit_request(audited, f"agent {action}", user_name(origin.by, "--by"), origin.reason)

    def annotate(self, action: str, annotation: str, value: str) -> None:
        """Set an annotation, or remove it where the value is empty."""
        metadata: dict[str, Any] = {
            "name": self.place.name,
            "namespace": self.place.namespace,
            "annotations": {annotation: value} if value else {},
        }
        body = {"apiVersion": f"{AGENTS_GROUP}/{VERSION}", "kind": self.kind, "metadata": metadata}
        # a field manager per action: one that omits an annotation that it set before removes it
        manager = {"fieldManager": f"gitsync-agent-{action}", "force": "true"}
        self.client.apply(_path(self.place, self.kind), body, manager)


@agent.command()
@command
def promote(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Continue the rollout of the new revision: skip the pauses of a canary, switch blue-green."""
    live = _read(target)
    return live.request("promote", origin, PROMOTE, _new_revision(live))


@agent.command()
@command
def abort(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Stop a rollout, and return to the revision before; blue-green also while the old side is kept."""
    live = _read(target)
    # the new side of blue-green serves already, and the old one still runs
    is_kept = at(live.manifest, "status", "rollout", "stage") == RolloutStage.KEEP_OLD.value
    revision = str(at(live.manifest, "status", "currentRevision")) if is_kept else _new_revision(live)
    return live.request("abort", origin, ABORT, revision)


@agent.command()
@command
def restart(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Replace all Pods of an Agent, as its spec.update says."""
    return _read(target).request("restart", origin, RESTARTED_AT, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


@agent.command()
@command
def approve(
    target: AgentTarget,
    origin: RequestOrigin,
    system: Annotated[bool, typer.Option("--system", help="NAME is a MultiAgentSystem.")] = False,
) -> Exit:
    """Approve the plan of an Agent or a system that waits, exactly as it is."""
    live = _read(target, "MultiAgentSystem" if system else "Agent")
    try:
        app, plan = held_plan(live.manifest)
    except WrongState as error:
        raise InvalidInput("no plan waits for approval", object=str(live), hint="see its status.conditions") from error
    by = User(user_name(origin.by, "--by"))
    # The operator decides by its policies whether this review counts, so none are needed here.
    reviews = ReviewService(DatabaseRecords(target.data), SystemClock(), lambda app: Policy())
    until = reviews.approve(app, plan, Approval(by, origin.reason or "gitsync agent approve", overrules=True))
    # the review first: the annotation only makes the operator reconcile
    live.annotate("approve", APPROVE, plan.digest)
    say(f"{live}: plan {plan.digest[:12]} approved by {by.name} until {until:%Y-%m-%d %H:%M} UTC")
    return Exit.OK


@agent.command()
@command
def stop(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Stop all Pods of an Agent at once, whatever waits for approval, until `gitsync agent start`."""
    if not origin.reason:
        raise InvalidInput("needs a reason", location="--reason", hint="those who find it stopped will read it")
    value = f"{user_name(origin.by, '--by')}: {origin.reason}"
    return _read(target).request("stop", origin, STOPPED, value)


@agent.command()
@command
def start(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Run an Agent again that `gitsync agent stop` stopped."""
    live = _read(target)
    if not at(live.manifest, "metadata", "annotations", STOPPED):
        raise InvalidInput("is not stopped", object=str(live))
    live.audit("start", origin)
    # By the manager of the stop: the annotation of an apply that omits it goes.
    live.annotate("stop", STOPPED, "")
    say(f"{live}: start")
    return Exit.OK


@agent.command()
@command
def upgrade(
    target: AgentsTarget,
    origin: RequestOrigin,
    plan: Annotated[bool, typer.Option("--plan", help="Show what it would change, and change nothing.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Withdraw the request; what runs stays.")] = False,
    max_unavailable: Annotated[
        str, typer.Option("--max-unavailable", metavar="N|N%", help="How many Agents replace their Pods at one time.")
    ] = str(DEFAULT_LIMIT),
    output: Output = Format.TABLE,
) -> Exit:
    """Give Agents the Pods that this version of the controller makes of their spec, in waves."""
    limit = WaveLimit.parse(max_unavailable)
    client, manifests = _listed(target)
    rows = upgrade_rows(manifests, limit)
    if plan:
        show_upgrades(rows, output)
        return Exit.OK
    if cancel:
        chosen = [manifest for manifest in manifests if at(manifest, "metadata", "annotations", UPGRADE)]
    else:
        outdated = {(row["namespace"], row["agent"]) for row in rows}
        chosen = [manifest for manifest in manifests if _key(manifest) in outdated]
    if not chosen:
        say("no upgrade is requested" if cancel else "all Agents have the Pods of this version")
    for manifest in chosen:
        place = AgentTarget(
            name=_key(manifest)[1], namespace=_key(manifest)[0], kubeconfig=target.kubeconfig, data=target.data
        )
        live = LiveAgent(client, place, "Agent", manifest)
        version = at(manifest, "status", "expansion", "available")
        if cancel:
            live.audit("upgrade --cancel", origin)
            live.annotate("upgrade", UPGRADE, "")
            say(f"{live}: upgrade withdrawn")
        else:
            live.request("upgrade", origin, UPGRADE, f"{version}/{limit}")
    return Exit.OK


@agent.command()
@command
def retry(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Check the revision of the spec again, although its checks failed or had no result."""
    live = _read(target)
    revision = str(at(live.manifest, "status", "updateRevision", default=""))
    if not revision or revision == at(live.manifest, "status", "lastGoodRevision"):
        raise InvalidInput("no revision waits for its checks", object=str(live), hint="see its status.conditions")
    if at(live.manifest, "metadata", "annotations", ABORT):
        # else the revision would be aborted again as soon as it is tried
        live.annotate("abort", ABORT, "")
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # with the time: a second retry of one revision is another value
    return live.request("retry", origin, RETRY, f"{revision}@{stamp}")


@agent.command()
@command
def backup(target: AgentTarget, origin: RequestOrigin) -> Exit:
    """Copy the volumes of an Agent now."""
    live = _read(target)
    if not at(live.manifest, "spec", "backup"):
        raise InvalidInput("has no spec.backup", object=str(live), hint="see docs/agents-operate.md")
    return live.request("backup", origin, BACKUP, datetime.now(UTC).strftime("%Y%m%d%H%M%S"))


@agent.command()
@command
def history(target: AgentTarget, output: Output = Format.TABLE) -> Exit:
    """List the kept revisions of an Agent: what changed, the commit, and the verdict of the evaluation."""
    live = _read(target)
    show_revisions(live.client, live.manifest, output)
    return Exit.OK


@agent.command()
@command
def quality(
    target: AgentTarget,
    prometheus: Annotated[
        str, typer.Option(envvar="GITSYNC_PROMETHEUS", help="The URL of the Prometheus that scrapes the Agent.")
    ] = "",
    prometheus_token_file: Annotated[
        Path | None, typer.Option(envvar="GITSYNC_PROMETHEUS_TOKEN_FILE", help="The file with its bearer token.")
    ] = None,
    output: Output = Format.TABLE,
) -> Exit:
    """Show how good each kept revision of an Agent was: evaluation, requests, errors, latency, tools, tokens."""
    live = _read(target)
    clock = SystemClock()
    server = Prometheus(prometheus, clock, token=prometheus_token_file) if prometheus else None
    show_quality(live.client, live.manifest, server.ask if server else None, clock.now(), output)
    return Exit.OK


@agent.command()
@command
def prompts(
    name: AgentName,
    dashboard: DashboardOptions,
    namespace: AgentNamespace = _NAMESPACE,
    before: Annotated[str, typer.Option("--before", metavar="VERSION", help="Compare from this version.")] = "",
    after: Annotated[str, typer.Option("--after", metavar="VERSION", help="Compare with this one; that of now.")] = "",
    output: Output = Format.TABLE,
) -> Exit:
    """List the versions of the prompts of an Agent, or compare two of them line by line."""
    show_prompts(dashboard.require(), f"{namespace}/{name}", (before, after), output)
    return Exit.OK


@agent.command()
@command
def contract(target: AgentTarget, output: Output = Format.TABLE) -> Exit:
    """Show how the tools, peers and models of an Agent differ from their lock, as last compared in the cluster."""
    return show_contract(_read(target).manifest, output)


@agent.command()
@command
def budget(target: AgentTarget, output: Output = Format.TABLE) -> Exit:
    """Show what an Agent used today of its budget, as last measured in the cluster."""
    return show_budget(_read(target).manifest, output)


@agent.command()
@command
def bom(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="The folder with the Agents.")] = ".",
    name: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this Agent.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The namespace of Agents that declare none.")
    ] = _NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """List what the Agents of a folder consist of: image, models, prompt with its commit, tools, locked contracts."""
    show_bom(bom_rows(path, name, namespace), output)
    return Exit.OK


@agent.command()
@command
def lock(
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="The folder with the Agents.")] = ".",
    name: Annotated[str, typer.Argument(metavar="[AGENT]", help="Only this Agent.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Compare with the lock, and write nothing.")] = False,
    reach: Annotated[
        list[str] | None,
        typer.Option(
            "--reach", metavar="NAME=URL", help="Ask the tool, peer or model of this name at another address."
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The namespace of Agents that declare none.")
    ] = _NAMESPACE,
    config: Annotated[
        Path | None, typer.Option(help="The agent.json of one Agent, named NAMESPACE/NAME by AGENT, instead of PATH.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="The lock; by default contracts.lock in PATH.")] = None,
    summary: Annotated[Path | None, typer.Option(help="With --check: write a report as JSON to this file.")] = None,
    output: Output = Format.TABLE,
) -> Exit:
    """Write contracts.lock: the tools, peers and models that Agents depend on, as they are now; or compare with it."""
    urls = dict(_reached(item) for item in reach or ())
    agents = [agent_of_config(config, name)] if config else agents_of_folder(path, name, namespace)
    place = file or lock_file(path)
    locked = read_lock(place)
    checks = observe(agents, locked, urls)
    if not check:
        return write_lock(place, locked, checks, is_whole=not name)
    result = report_check(checks, output)
    if summary is None:
        return result
    write_summary(summary, checks[0])
    # The report has the result: a Job that wrote it has not failed.
    return Exit.OK


def _reached(item: str) -> tuple[str, str]:
    name, separator, url = item.partition("=")
    if not separator:
        raise InvalidInput(f"{item} is not NAME=URL", location="--reach")
    return name, url


def _read(target: AgentTarget, kind: str = "Agent") -> LiveAgent:
    """Return an Agent or a system of the cluster; raise InvalidInput when it does not exist."""
    client = connect(target.cluster)
    try:
        return LiveAgent(client, target, kind, client.get(_path(target, kind)))
    except Rejected as error:
        if error.code == 404:
            raise InvalidInput(
                "does not exist",
                object=f"{kind} {target.namespace}/{target.name}",
                hint="list them by kubectl get agents.agents.gitsync.dev,multiagentsystems.agents.gitsync.dev -A",
            ) from error
        raise


def _listed(target: AgentsTarget) -> tuple[Client, list[Manifest]]:
    """Return the Agents that are meant; raise InvalidInput when the one that is named does not exist."""
    if target.name:
        place = AgentTarget(
            name=target.name, namespace=target.namespace, kubeconfig=target.kubeconfig, data=target.data
        )
        live = _read(place)
        return live.client, [live.manifest]
    client = connect(target.cluster)
    scope = "" if target.everywhere else f"/namespaces/{segment(target.namespace)}"
    items = client.get(f"/apis/{AGENTS_GROUP}/{VERSION}{scope}/agents")["items"]
    # The items of a list have neither apiVersion nor kind.
    agents = [{"apiVersion": f"{AGENTS_GROUP}/{VERSION}", "kind": "Agent", **item} for item in items]
    return client, sorted(agents, key=_key)


def _key(manifest: Manifest) -> tuple[str, str]:
    return str(metadata_of(manifest)["namespace"]), str(metadata_of(manifest)["name"])


def _path(target: AgentTarget, kind: str) -> str:
    namespaced = f"/apis/{AGENTS_GROUP}/{VERSION}/namespaces/{segment(target.namespace)}"
    return f"{namespaced}/{kind.lower()}s/{segment(target.name)}"


def _new_revision(live: LiveAgent) -> str:
    """Return the revision that a rollout brings; raise InvalidInput where there is none that does not serve yet."""
    revision = str(at(live.manifest, "status", "rollout", "revision", default=""))
    if not revision:
        raise InvalidInput("no rollout is in progress", object=str(live), hint="see its status.conditions")
    if revision == at(live.manifest, "status", "currentRevision"):
        hint = "to return to the revision before, revert its change in Git"
        raise InvalidInput(f"revision {revision} is the current one already", object=str(live), hint=hint)
    return revision
