"""The kept revisions of an Agent and of its prompts: what changed, the commit, and the verdict of the evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from gitsync.agents.expansion.revisions import Revision, stored_revision
from gitsync.agents.keys import AGENT_LABEL
from gitsync.cli.dashboard import Dashboard, items
from gitsync.cli.output import Format, say, show, show_one
from gitsync.cluster.client import Client, segment
from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.keys import AGENTS_GROUP, API_VERSION, APPLICATION_LABEL, VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.plan.display import inner_lines
from gitsync.plan.tracking import owner_of

_COLUMNS = ("revision", "created", "state", "changed", "evaluation", "commit", "author", "message")
_PROMPT_COLUMNS = ("version", "description")
_MOST_PROMPTS = 60
"""The versions of prompts that are read from the dashboard."""
_STATES = {
    "currentRevision": "serving",
    "failedRevision": "failed",
    "updateRevision": "new",
    "lastGoodRevision": "good",
}
MARKS: Final = {"-": "red", "+": "green"}


def show_revisions(client: Client, agent: Manifest, output: Format) -> None:
    """Print the revisions, newest first, and the lines of the prompt that each one changed."""
    rows = list(revision_rows(agent, _kept(client, agent), _syncs(client, agent)))
    show(rows, _COLUMNS, output, key="revision")
    for row in rows if output is Format.TABLE else ():
        if row["promptLines"]:
            say(f"\nprompt of {row['revision']}:")
        for line in row["promptLines"]:
            say(f"  {line['mark']} {line['text']}", MARKS.get(line["mark"], ""))


def revision_rows(
    agent: Manifest, kept: Iterable[Manifest], syncs: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each revision, newest first; its commit is the one that was applied when it was created."""
    found = sorted(
        (
            (revision, str(metadata_of(one).get("creationTimestamp", "")))
            for one in kept
            if (revision := stored_revision(one))
        ),
        key=lambda pair: -pair[0].number,
    )
    for index, (revision, created) in enumerate(found):
        before = found[index + 1][0] if index + 1 < len(found) else None
        sync = max((one for one in syncs if _second(one) <= created[:19]), key=_second, default={})
        verdict = json.loads(revision.evaluation or "{}")
        yield {
            "revision": revision.name,
            "number": revision.number,
            "created": created,
            "state": _state(agent, revision.name),
            "changed": list(_changed(before, revision)) if before else [],
            "evaluation": verdict_text(verdict),
            "commit": str(sync.get("revision", ""))[:12],
            "author": sync.get("author", ""),
            "message": sync.get("message", ""),
            "cases": verdict.get("results", []),
            "prompt": _prompt(revision),
            "promptLines": _lines(before, revision),
        }


def verdict_text(verdict: Mapping[str, Any]) -> str:
    """Return a verdict as one line, empty where there is none."""
    return f"{verdict.get('result', '')} {verdict.get('passed', 0)}/{verdict.get('cases', 0)}" if verdict else ""


def verdicts(client: Client, application: str) -> list[dict[str, Any]]:
    """Return the newest verdict on each Agent that an Application applied; empty where Agents cannot be read."""
    selector = f"{APPLICATION_LABEL}={application.rpartition('/')[2]}"
    try:
        items = client.get(f"/apis/{AGENTS_GROUP}/{VERSION}/agents", {"labelSelector": selector})["items"]
    except Rejected:
        return []
    agents = [{"apiVersion": f"{AGENTS_GROUP}/{VERSION}", "kind": "Agent", **one} for one in items]
    return [
        {"agent": str(ref_of(one)), **verdict}
        for one in agents
        if owner_of(one) == application and (verdict := at(one, "status", "evaluation"))
    ]


def _kept(client: Client, agent: Manifest) -> list[Manifest]:
    ref = ref_of(agent)
    path = f"/apis/apps/v1/namespaces/{segment(ref.namespace)}/controllerrevisions"
    items = client.get(path, {"labelSelector": f"{AGENT_LABEL}={ref.name}"})["items"]
    return [{"kind": "ControllerRevision", **one} for one in items]


def _syncs(client: Client, agent: Manifest) -> list[dict[str, Any]]:
    """Return the syncs of the Application that applied the Agent, or of the system that it is a member of."""
    owners = metadata_of(agent).get("ownerReferences") or ()
    system = next((str(one["name"]) for one in owners if one.get("kind") == "MultiAgentSystem"), "")
    try:
        place = f"/apis/{AGENTS_GROUP}/{VERSION}/namespaces/{segment(ref_of(agent).namespace)}"
        holder = client.get(f"{place}/multiagentsystems/{segment(system)}") if system else agent
        namespace, _, name = owner_of(holder).partition("/")
        if not name:
            return []
        found = client.get(f"/apis/{API_VERSION}/namespaces/{segment(namespace)}/applications/{segment(name)}")
    except Rejected:
        return []
    history: list[dict[str, Any]] = at(found, "status", "history", default=[])
    return history


def _second(sync: Mapping[str, Any]) -> str:
    return str(sync.get("startedAt", ""))[:19]


def _state(agent: Manifest, name: str) -> str:
    return next((word for key, word in _STATES.items() if at(agent, "status", key) == name), "")


def _changed(before: Revision, after: Revision) -> list[str]:
    """Return which parts of a revision differ from the one before."""
    documents = [json.loads(one.config.get("agent.json", "{}")) for one in (before, after)]
    names = sorted(documents[0].keys() | documents[1].keys())
    found = [name for name in names if documents[0].get(name) != documents[1].get(name)]
    found += ["prompt"] if _prompt(before) != _prompt(after) else []
    return found or ["pods"]


def _prompt(revision: Revision) -> str:
    return revision.config.get("prompt.md", "")


def _lines(before: Revision | None, after: Revision) -> list[dict[str, str]]:
    """Return the lines of the prompt that differ from the revision before."""
    return prompt_lines(_prompt(before), _prompt(after)) if before is not None else []


def prompt_lines(before: str, after: str) -> list[dict[str, str]]:
    """Return the lines in which two prompts differ, with the equal ones around them."""
    if before == after:
        return []
    found = inner_lines(f"{before}\n ", f"{after}\n ")  # a text of one line has no rows
    return [{"mark": line.mark, "text": line.text} for line in found if line.text.strip()]


def show_prompts(dashboard: Dashboard, agent: str, compared: tuple[str, str], output: Format) -> None:
    """Print the versions of the prompts of ``namespace/name``, or the lines in which the two compared ones differ."""
    path = "/".join(quote(part, safe="") for part in agent.split("/", 1))
    found = items(dashboard, f"agents/{path}/prompts", _MOST_PROMPTS)
    versions = [{"version": one["key"], "description": one["label"], "text": one["text"]} for one in found]
    if not any(compared):
        show(versions, _PROMPT_COLUMNS, output, key="version")
        return
    before, after = (_version(versions, name) for name in compared)
    lines = prompt_lines(before["text"], after["text"])
    if output in (Format.JSON, Format.YAML):
        show_one({"before": before, "after": after, "lines": lines}, output)
        return
    for line in lines or [{"mark": " ", "text": "the texts are equal"}]:
        say(f"{line['mark']} {line['text']}", MARKS.get(line["mark"], ""))


def _version(versions: Iterable[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a version by its name, or the first, that of now, without one."""
    for one in versions:
        if name in ("", one["version"]):
            return one
    raise InvalidInput(f"{name!r} is not a version of a prompt", hint="list them without --before and --after")
