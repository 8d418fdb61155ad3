"""``gitsync status``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.cli.applications import all_applications, connect, is_good, one_application, pinned_from
from gitsync.cli.options import (
    NAMESPACE,
    AnyName,
    AnyNamespace,
    ClusterTarget,
    Output,
    Watch,
    command,
)
from gitsync.cli.output import Exit, Format, repeat, say, show
from gitsync.cluster.client import Client
from gitsync.objects.conditions import main_message
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.phase import Phase
from gitsync.server.queries.words import words

_NAME = ("namespace", "name")
_COLUMNS = ("namespace", "name", "sync", "health", "phase", "revision", "reason")


@command
def status(
    place: ClusterTarget,
    name: AnyName = "",
    namespace: AnyNamespace = "",
    watch: Watch = False,
    output: Output = Format.TABLE,
) -> Exit:
    """Show sync state, health and reasons. Exit code 1: an Application is not in sync or not healthy."""
    client = connect(place.cluster)
    if watch:
        repeat(lambda: [_row(item) for item in _chosen(client, namespace, name)], _COLUMNS, output, key=_NAME)
    if name:
        return _show_one(one_application(client, namespace or NAMESPACE, name), output)
    applications = all_applications(client, namespace)
    if not applications and output is Format.TABLE:
        say("no Applications; add one with: gitsync run --application FILE")
        return Exit.OK
    show([_row(application) for application in applications], _COLUMNS, output, key=_NAME)
    return Exit.OK if all(map(is_good, applications)) else Exit.DIFFERENT


def _chosen(client: Client, namespace: str, name: str) -> list[Manifest]:
    return [one_application(client, namespace or NAMESPACE, name)] if name else all_applications(client, namespace)


def _show_one(application: Manifest, output: Format) -> Exit:
    if output is Format.TABLE:
        _print_one(application)
    else:
        show([_row(application) | {"status": application.get("status", {})}], _COLUMNS, output, key=_NAME)
    return Exit.OK if is_good(application) else Exit.DIFFERENT


def _row(application: Manifest) -> dict[str, Any]:
    state = application.get("status") or {}
    return {
        "namespace": at(application, "metadata", "namespace"),
        "name": at(application, "metadata", "name"),
        "sync": state.get("sync", "Unknown"),
        "health": state.get("health", "Unknown"),
        "phase": Phase.of(state).value,
        "revision": str(at(state, "revision", "applied", default=""))[:12],
        "reason": main_message(state),
    }


def _print_one(application: Manifest) -> None:
    row = _row(application)
    state = application.get("status") or {}
    revision = state.get("revision") or {}
    sources = at(application, "spec", "sources") or [at(application, "spec", "source", default={})]
    commits = {part["name"]: part["commit"][:12] for part in revision.get("sources") or ()}
    pinned = pinned_from(application)
    counts = ", ".join(f"{count} {name}" for name, count in (state.get("resources") or {}).items())
    for label, value in (
        ("Application", f"{row['namespace']}/{row['name']}"),
        *(("Source", _source_line(source, commits)) for source in sources),
        ("Pinned", f"instead of {pinned}" if pinned else ""),
        ("Sync", words(row["sync"])),
        ("Health", words(row["health"])),
        ("Phase", words(row["phase"])),
        ("Fetched", _commit(revision)),
        ("Applied", row["revision"]),
        ("Resources", counts),
    ):
        if value:
            say(f"{label + ':':13}{value}")
    _print_conditions(state)


def _source_line(source: Mapping[str, Any], commits: Mapping[str, str]) -> str:
    """Return a source in words, with its commit where it is one of several."""
    name = str(source.get("name", ""))
    words = (name and f"{name}:", *(source.get(member, "") for member in ("repoURL", "chart", "revision", "path")))
    commit = commits.get(name, "")
    return " ".join(filter(None, (*words, commit and f"at {commit}")))


def _print_conditions(state: Mapping[str, Any]) -> None:
    say("Conditions:")
    for item in state.get("conditions") or ():
        # False is the good state of Stalled
        style = "red" if item["status"] == "False" and item["type"] != "Stalled" else ""
        say(f"  {item['type']:12} {item['status']:8} {item['reason']}: {item['message']}", style)
    problems = state.get("problems") or ()
    if problems:
        say("Problems:")
    for problem in problems:
        say(f"  {problem.get('object', '')}: {problem.get('message', '')}", "red")


def _commit(revision: Mapping[str, Any]) -> str:
    fetched = str(revision.get("fetched", ""))[:12]
    return f"{fetched} {revision.get('message', '')} ({revision.get('author', '')})" if fetched else ""
