"""``gitsync tree``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitsync.cli.dashboard import DashboardOptions, application_path
from gitsync.cli.options import NAMESPACE, Name, Namespace, Output, command
from gitsync.cli.output import STYLES, Exit, Format, say, show
from gitsync.server.queries.words import sentence

_COLUMNS = ("ref", "sync", "health", "reason")


@command
def tree(
    dashboard: DashboardOptions,
    name: Name,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """Show the objects of an Application by kind, and under each what it owns, down to the Pods."""
    nodes = dashboard.require().get(f"{application_path(f'{namespace}/{name}')}/tree")
    if output is not Format.TABLE:
        show(nodes if output in (Format.JSON, Format.YAML) else list(_all(nodes)), _COLUMNS, output, key="ref")
        return Exit.OK
    for line, health in _lines(nodes, ""):
        say(line, STYLES.get(health, ""))
    return Exit.OK


def _all(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if node["ref"]:
            yield {key: value for key, value in node.items() if key != "children"}
        yield from _all(node["children"])


def _lines(nodes: list[dict[str, Any]], indent: str) -> Iterator[tuple[str, str]]:
    for number, node in enumerate(nodes):
        is_last = number == len(nodes) - 1
        states = sentence(filter(None, (node["sync"], node["health"])))
        reason = f": {node['reason']}" if node["reason"] and node["health"] not in ("Healthy", "Suspended") else ""
        label = f"{node['kind']} {node['name'] or node['count']}"
        yield f"{indent}{'└─ ' if is_last else '├─ '}{label}  {states}{reason}", node["health"]
        yield from _lines(node["children"], indent + ("   " if is_last else "│  "))
