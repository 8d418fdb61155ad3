"""Dependencies: what an application waits for before a new commit of it is applied."""

from __future__ import annotations

from collections.abc import Callable

from gitsync.objects.application import Application, dependencies_of
from gitsync.objects.manifest import Manifest, at, metadata_of

Find = Callable[[str], Manifest | None]
"""Return an Application by ``namespace/name``."""


def blocking_dependency(app: Application, commit: str, find: Find) -> str:
    """
    Return what the application waits for, in words; empty when every application it depends on is ready.

    Ready is Synced and Healthy, said of its current generation, and, where it follows the same revision of the same
    repository, at the same commit.
    """
    if not app.depends_on:
        return ""
    cycle = _cycle(app.key, app.depends_on, find)
    if cycle:
        return f"spec.dependsOn is a cycle, which never ends: {' → '.join(cycle)}"
    waits = (_waits(app, key, find(key), commit) for key in app.depends_on)
    return next((text for text in waits if text), "")


def _waits(app: Application, key: str, other: Manifest | None, commit: str) -> str:
    if other is None:
        return f"depends on Application {key}, which does not exist"
    if at(other, "status", "observedGeneration") != metadata_of(other).get("generation"):
        return f"depends on Application {key}, whose newest spec was not looked at yet"
    conditions = at(other, "status", "conditions", default=[])
    ready: Manifest = next((item for item in conditions if item["type"] == "Ready"), {})
    if ready.get("status") != "True":
        return f"depends on Application {key}, which is not ready: {ready.get('reason', 'Unknown')}"
    follows = (at(other, "spec", "source", "repoURL"), at(other, "spec", "source", "revision", default="main"))
    if follows == (app.source.repo_url, app.source.revision) and at(other, "status", "revision", "applied") != commit:
        return f"depends on Application {key}, which is not at commit {commit[:12]} yet"
    return ""


def _cycle(key: str, depends_on: tuple[str, ...], find: Find) -> tuple[str, ...]:
    """Return a way that leads back to the application, empty when there is none."""
    ways: list[tuple[str, ...]] = [(key, other) for other in depends_on]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        last = way[-1]
        if last == key:
            return way
        if last not in seen:
            seen.add(last)
            ways += [(*way, other) for other in dependencies_of(find(last) or {})]
    return ()
