"""Find the dashboard of a command, and one object of an Application by what a user types."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gitsync.cli.dashboard_client import Dashboard, DashboardAddress
from gitsync.cli.queries.port_forward import can_forward, forward
from gitsync.errors import InvalidInput


def connect(server: str, token_file: Path | None, data: Path) -> Dashboard:
    """Return the dashboard of the options, else that of the cluster; raise InvalidInput where there is none."""
    found = DashboardAddress(server, token_file).find(data)
    if found is None and can_forward():
        found = DashboardAddress(forward(), token_file).find(data)
    if found is None:
        raise InvalidInput(
            "no dashboard runs on the data folder",
            location=str(data),
            hint="name one with --server URL, or give the data folder of the controller with --data",
        )
    return found


def items(dashboard: Dashboard, path: str, limit: int, **query: str) -> list[dict[str, Any]]:
    """Return at most ``limit`` items of a list of the API, page by page."""
    parameters = {name: text for name, text in query.items() if text}
    url = f"/api/v1/{path}?{urlencode({**parameters, 'limit': str(min(limit, 500))})}"
    found: list[dict[str, Any]] = []
    while url and len(found) < limit:
        page = dashboard.get(url)
        found += page["items"]
        url = page["next"]
    return found[:limit]


def one_object(dashboard: Dashboard, application: str, text: str) -> str:
    """Return the ref of an object that is written as ``kind/name`` or ``group/kind/namespace/name``."""
    if text.count("/") >= 3:
        return text
    kind, _, name = text.partition("/")
    if not (kind and name):
        raise InvalidInput(f"{text!r} is not an object", location="OBJECT", hint="write Deployment/web")
    found = items(dashboard, "objects", 2, q=f'app:{application} kind:{kind} name:"{name}"')
    if len(found) == 1:
        return "/".join(found[0][part] for part in ("group", "kind", "namespace", "name"))
    if kind.lower() in ("pod", "replicaset", "job") and not found:
        return _part(dashboard, application, kind.lower(), name)
    problem = "is not part of" if not found else "is in several namespaces or groups of"
    raise InvalidInput(
        f"{text} {problem} Application {application}",
        hint="see `gitsync objects`" if not found else "write it as group/kind/namespace/name",
    )


def _part(dashboard: Dashboard, application: str, kind: str, name: str) -> str:
    waiting: list[dict[str, Any]] = list(dashboard.get(f"{of(application)}/tree"))
    while waiting:
        node = waiting.pop()
        if (node["kind"].lower(), node["name"]) == (kind, name):
            return str(node["ref"])
        waiting += node["children"]
    raise InvalidInput(f"{kind}/{name} is not part of Application {application}", hint="see `gitsync tree`")


def of(application: str) -> str:
    """Return the path of an Application in the API."""
    return "/api/v1/applications/" + "/".join(quote(part, safe="") for part in application.split("/", 1))
