"""What is known of an Agent: its revisions and prompts with commits and verdicts, its quality, and its budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import Any, Final
from urllib.parse import quote

from gitsync.agents.budget import BudgetResult
from gitsync.agents.expansion.revisions import Revision, stored_revision
from gitsync.agents.keys import AGENT_LABEL, UPGRADE
from gitsync.agents.rollout.state import RevisionRoles
from gitsync.agents.waves import WaveChange, WaveLimit, WavePart, part_in_wave
from gitsync.cli.dashboard import Dashboard, items
from gitsync.cli.output import Exit, Format, say, show, show_one
from gitsync.cluster.client import Client, segment
from gitsync.errors import ClusterUnavailable, InvalidInput, Rejected
from gitsync.objects.keys import AGENTS_GROUP, API_VERSION, APPLICATION_LABEL, VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.display import inner_lines
from gitsync.plan.tracking import owner_of
from gitsync.ports import MetricResult
from gitsync.server.formatting import parse_time
from gitsync.services.usage import figure_queries

_COLUMNS = ("revision", "created", "state", "changed", "evaluation", "commit", "author", "message")
_QUALITY_COLUMNS = (
    *("revision", "since", "state", "commit", "evaluation", "requests", "errors", "latency", "toolsOk", "tokens"),
)
_UPGRADE_COLUMNS = ("agent", "namespace", "revision", "expansion", "wave", "state", "differences")
_BUDGET_COLUMNS = ("scope", "unit", "used", "limit", "percent")
_PROMPT_COLUMNS = ("version", "description")
_MOST_PROMPTS = 60
"""The versions of prompts that are read from the dashboard."""
MARKS: Final = {"-": "red", "+": "green"}


def show_revisions(client: Client, agent: Manifest, output: Format) -> None:
    """Print the revisions, newest first, and the lines of the prompt that each one changed."""
    rows = list(revision_rows(agent, _kept(client, agent), _syncs(client, agent)))
    is_table = output in (Format.TABLE, Format.WIDE)
    listed = [row | {"evaluation": with_failures(row)} for row in rows] if is_table else rows
    show(listed, _COLUMNS, output, key="revision")
    for row in rows if output is Format.TABLE else ():
        if row["promptLines"]:
            say(f"\nprompt of {row['revision']}:")
        for line in row["promptLines"]:
            say(f"  {line['mark']} {line['text']}", MARKS.get(line["mark"], ""))


def with_failures(row: Mapping[str, Any]) -> str:
    """Return the verdict of a revision with the names of the cases that failed, as a table shows it."""
    failed = [case["name"] for case in row["cases"] if case.get("now") == "failed"]
    return f"{row['evaluation']}: {', '.join(failed)}" if failed else str(row["evaluation"])


def revision_rows(
    agent: Manifest, kept: Iterable[Manifest], syncs: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each revision, newest first; its commit is the one that was applied when it was created."""
    revisions = sorted(
        (
            (revision, str(metadata_of(stored).get("creationTimestamp", "")))
            for stored in kept
            if (revision := stored_revision(stored))
        ),
        key=lambda pair: -pair[0].number,
    )
    for index, (revision, created) in enumerate(revisions):
        previous = revisions[index + 1][0] if index + 1 < len(revisions) else None
        # without the time zone: both are UTC, and creationTimestamp has whole seconds
        sync = max((done for done in syncs if _second(done) <= created[:19]), key=_second, default={})
        verdict = revision.evaluation_verdict
        yield {
            "revision": revision.name,
            "number": revision.number,
            "created": created,
            "state": _state(agent, revision.name),
            "changed": list(_changed(previous, revision)) if previous else [],
            "evaluation": verdict_text(verdict),
            "commit": str(sync.get("revision", ""))[:12],
            "author": sync.get("author", ""),
            "message": sync.get("message", ""),
            "cases": verdict.get("results", []),
            "prompt": _prompt(revision),
            "promptLines": _lines(previous, revision),
        }


def quality_rows(
    agent: Manifest, rows: Iterable[Mapping[str, Any]], ask: Callable[[str], MetricResult] | None, now: datetime
) -> Iterator[dict[str, Any]]:
    """
    Yield a row for each revision, newest first: its evaluation, and its figures while it was the newest that served.

    ``rows`` are those of `revision_rows`. Without ``ask``, and for revisions that never served, no figure is known.
    Shares are between 0 and 1, latency is the 95th percentile in seconds. Raise ClusterUnavailable when Prometheus
    does not answer.
    """
    end = now
    for row in rows:
        since = parse_time(row["created"])
        figures: dict[str, float | None] = dict.fromkeys(figure_queries(ref_of(agent), ""))
        is_served = row["state"] not in ("failed", "candidate") and not row["evaluation"].startswith("Failed")
        if ask is not None and is_served and since is not None and end > since:
            offset = round((now - end).total_seconds())
            period = f"[{round((end - since).total_seconds())}s]" + (f" offset {offset}s" if offset else "")
            queries = figure_queries(ref_of(agent), period)
            figures = {name: _figure(ask(query)) for name, query in queries.items()}
            end = since
        known = {name: row[name] for name in ("revision", "state", "commit", "evaluation", "message")}
        yield {**known, "since": row["created"], **figures}


def _figure(result: MetricResult) -> float | None:
    """Return the number of a result, None where the period has no data."""
    if result.problem.startswith("Prometheus ") or "token for Prometheus" in result.problem:
        raise ClusterUnavailable(result.problem, location="--prometheus")
    value = result.samples[0].value if result.samples else None
    return value if value is not None and isfinite(value) else None


def show_quality(
    client: Client, agent: Manifest, ask: Callable[[str], MetricResult] | None, now: datetime, output: Format
) -> None:
    """Print how good each revision was: its evaluation and its figures."""
    revisions = list(revision_rows(agent, _kept(client, agent), _syncs(client, agent)))
    rows = list(quality_rows(agent, revisions, ask, now))
    is_table = output in (Format.TABLE, Format.WIDE)
    show([_with_units(row) for row in rows] if is_table else rows, _QUALITY_COLUMNS, output, key="revision")
    if ask is None and is_table:
        say("requests, errors, latency, tools and tokens: name a Prometheus with --prometheus")


def _with_units(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of figures as a table shows it."""
    forms = {"requests": "{:.0f}", "errors": "{:.1%}", "latency": "{:.2f} s", "toolsOk": "{:.1%}", "tokens": "{:.0f}"}
    figures = {name: form.format(row[name]) if row[name] is not None else "-" for name, form in forms.items()}
    return {**row, **figures}


def show_budget(agent: Manifest, output: Format) -> Exit:
    """Print what an Agent used today of each limit; raise InvalidInput for one without a budget."""
    known = at(agent, "status", "budget", default={})
    if not known:
        hint = "set spec.budget, see docs/agents-operate.md"
        raise InvalidInput("has no budget that was measured", object=str(ref_of(agent)), hint=hint)
    show(known.get("limits") or (), _BUDGET_COLUMNS, output, key="scope")
    is_unknown = known["result"] == BudgetResult.UNKNOWN.value
    if output is Format.TABLE or is_unknown:
        say(f"{known['day']}: {known['result']}: {known.get('message', '')}", is_warning=is_unknown)
    return Exit.DIFFERENT if known["result"] == BudgetResult.EXCEEDED.value else Exit.OK


def upgrade_rows(agents: Iterable[Manifest], limit: WaveLimit) -> list[dict[str, Any]]:
    """
    Return a row for each Agent whose Pods an older version of gitsync made, in the order of their waves.

    ``wave`` counts from 1; 0 is an Agent without Pods that serve, which waits for no other.
    """
    outdated = [agent for agent in agents if at(agent, "status", "expansion", "changes") is not None]
    waiting = [
        ref_of(agent)
        for agent in outdated
        if part_in_wave(agent, WaveChange.EXPANSION, is_outdated=True) is WavePart.WAITING
    ]
    allowed = limit.agents(len(outdated))
    waves = {ref: index // allowed + 1 for index, ref in enumerate(sorted(waiting))}
    rows = [_upgrade_row(agent, waves.get(ref_of(agent), 0)) for agent in outdated]
    return sorted(rows, key=lambda row: (row["wave"], row["namespace"], row["agent"]))


def _upgrade_row(agent: Manifest, wave: int) -> dict[str, Any]:
    ref = ref_of(agent)
    expansion = at(agent, "status", "expansion")
    is_requested = bool(at(agent, "metadata", "annotations", UPGRADE))
    return {
        "agent": ref.name,
        "namespace": ref.namespace,
        "revision": at(agent, "status", "updateRevision", default=""),
        "expansion": f"{expansion['revision']} -> {expansion['available']}",
        "wave": wave,
        "state": "requested" if is_requested else "",
        # Without a difference no Pod is replaced.
        "differences": len(expansion["changes"]),
        "changes": list(expansion["changes"]),
    }


def show_upgrades(rows: list[dict[str, Any]], output: Format) -> None:
    """Print the Agents that an upgrade would reach, and what it changes, once for those with equal changes."""
    show(rows, _UPGRADE_COLUMNS, output, key="agent")
    if output is not Format.TABLE:
        return
    agents_by_changes: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        agents_by_changes.setdefault(tuple(row["changes"]), []).append(f"{row['namespace']}/{row['agent']}")
    for changes, agents in agents_by_changes.items():
        say(f"\n{', '.join(agents)}:")
        for change in changes or ("no Pod changes",):
            say(f"  {change}")


def verdict_text(verdict: Mapping[str, Any]) -> str:
    """Return a verdict as one line, empty where there is none."""
    return f"{verdict.get('result', '')} {verdict.get('passed', 0)}/{verdict.get('cases', 0)}" if verdict else ""


def verdicts(client: Client, application: str) -> list[dict[str, Any]]:
    """Return the newest verdict on each Agent that an Application applied; empty where Agents cannot be read."""
    # the label has the name only: those of other namespaces are left out below
    selector = f"{APPLICATION_LABEL}={application.rpartition('/')[2]}"
    try:
        items = client.get(f"/apis/{AGENTS_GROUP}/{VERSION}/agents", {"labelSelector": selector})["items"]
    # a cluster without Agents does not serve them, and a user may not be allowed to read them
    except Rejected:
        return []
    # the items of a list have neither apiVersion nor kind
    agents = [{"apiVersion": f"{AGENTS_GROUP}/{VERSION}", "kind": "Agent", **agent} for agent in items]
    return [
        {"agent": str(ref_of(agent)), **verdict}
        for agent in agents
        if owner_of(agent) == application and (verdict := at(agent, "status", "evaluation"))
    ]


def object_verdicts(status: Manifest) -> list[dict[str, Any]]:
    """Return the verdicts on agents of other kinds, from the status of their Application; the newest comes last."""
    rows = [row for row in at(status, "evaluations", default=()) or () if row.get("result")]
    ordered = sorted(rows, key=lambda row: (row["object"], row["at"]))
    return [{"agent": str(ObjectRef.from_path(row["object"])), **row} for row in ordered]


def _kept(client: Client, agent: Manifest) -> list[Manifest]:
    ref = ref_of(agent)
    path = f"/apis/apps/v1/namespaces/{segment(ref.namespace)}/controllerrevisions"
    items = client.get(path, {"labelSelector": f"{AGENT_LABEL}={ref.name}"})["items"]
    return [{"kind": "ControllerRevision", **item} for item in items]


def _syncs(client: Client, agent: Manifest) -> list[dict[str, Any]]:
    """Return the syncs of the Application that applied the Agent, or of the system that it is a member of."""
    owners = metadata_of(agent).get("ownerReferences") or ()
    system = next((str(owner["name"]) for owner in owners if owner.get("kind") == "MultiAgentSystem"), "")
    try:
        place = f"/apis/{AGENTS_GROUP}/{VERSION}/namespaces/{segment(ref_of(agent).namespace)}"
        holder = client.get(f"{place}/multiagentsystems/{segment(system)}") if system else agent
        namespace, _, name = owner_of(holder).partition("/")
        if not name:
            return []
        application = client.get(f"/apis/{API_VERSION}/namespaces/{segment(namespace)}/applications/{segment(name)}")
    # the revisions are shown without their commits
    except Rejected:
        return []
    history: list[dict[str, Any]] = at(application, "status", "history", default=[])
    return history


def _second(sync: Mapping[str, Any]) -> str:
    return str(sync.get("startedAt", ""))[:19]


def _state(agent: Manifest, name: str) -> str:
    """Return the role of a revision in one word, as `gitsync agents` names its columns; "good" is the last good one."""
    status = agent.get("status") or {}
    roles = RevisionRoles.from_status(status)
    names = {roles.serving: "serving", roles.candidate: "candidate", roles.failed: "failed"}
    return names.get(name, "good" if name == status.get("lastGoodRevision") else "")


def _changed(previous: Revision, after: Revision) -> list[str]:
    """Return which parts of a revision differ from the one before."""
    old_config = _config(previous)
    new_config = _config(after)
    names = sorted(old_config.keys() | new_config.keys())
    parts = [name for name in names if old_config.get(name) != new_config.get(name)]
    parts += ["prompt"] if _prompt(previous) != _prompt(after) else []
    # a revision without another difference has another template of its Pods
    return parts or ["pods"]


def _config(revision: Revision) -> dict[str, Any]:
    try:
        config = json.loads(revision.config.get("agent.json", "{}"))
    # another version of gitsync, or a user, may have written what is kept
    except json.JSONDecodeError:
        return {}
    return config if isinstance(config, dict) else {}


def _prompt(revision: Revision) -> str:
    return revision.config.get("prompt.md", "")


def _lines(previous: Revision | None, after: Revision) -> list[dict[str, str]]:
    """Return the lines of the prompt that differ from the revision before."""
    return prompt_lines(_prompt(previous), _prompt(after)) if previous is not None else []


def prompt_lines(previous: str, after: str) -> list[dict[str, str]]:
    """Return the lines in which two prompts differ, with the equal ones around them."""
    if previous == after:
        return []
    lines = inner_lines(f"{previous}\n ", f"{after}\n ")  # a text of one line has no rows
    return [{"mark": line.mark, "text": line.text} for line in lines if line.text.strip()]


def show_prompts(dashboard: Dashboard, agent: str, compared: tuple[str, str], output: Format) -> None:
    """Print the versions of the prompts of ``namespace/name``, or the lines in which the two compared ones differ."""
    path = "/".join(quote(part, safe="") for part in agent.split("/", 1))
    prompts = items(dashboard, f"agents/{path}/prompts", _MOST_PROMPTS)
    versions = [
        {"version": prompt["key"], "description": prompt["label"], "text": prompt["text"]} for prompt in prompts
    ]
    if not any(compared):
        show(versions, _PROMPT_COLUMNS, output, key="version")
        return
    previous, after = (_version(versions, name) for name in compared)
    lines = prompt_lines(previous["text"], after["text"])
    if output in (Format.JSON, Format.YAML):
        show_one({"before": previous, "after": after, "lines": lines}, output)
        return
    for line in lines or [{"mark": " ", "text": "the texts are equal"}]:
        say(f"{line['mark']} {line['text']}", MARKS.get(line["mark"], ""))


def _version(versions: Iterable[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a version by its name, or the first, that of now, without one."""
    for version in versions:
        if name in ("", version["version"]):
            return version
    raise InvalidInput(f"{name!r} is not a version of a prompt", hint="list them without --before and --after")
