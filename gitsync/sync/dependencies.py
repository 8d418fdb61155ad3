"""What an Application waits for before a new commit of it is applied."""

from __future__ import annotations

from collections.abc import Callable

from gitsync.objects.application import Application, dependencies_of
from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.manifest import Manifest, at, metadata_of

Find = Callable[[str], Manifest | None]
"""Return an Application by ``namespace/name``."""


def blocking_dependency(app: Application, commit: str, find: Find) -> str:
    """
    Return what the Application waits for, empty when every Application it depends on is ready.

    Ready is the condition Ready of the current generation and, where both follow the same revision of the same
    repository, at the same commit.
    """
    if not app.depends_on:
        return ""
    cycle = _cycle(app.key, app.depends_on, find)
    if cycle:
        return f"spec.dependsOn is a cycle: {' → '.join(cycle)}"
    waits = (_blocking_reason(app, key, find(key), commit) for key in app.depends_on)
    return next((text for text in waits if text), "")


def _blocking_reason(app: Application, key: str, other: Manifest | None, commit: str) -> str:
    if other is None:
        return f"depends on Application {key}, which does not exist"
    if at(other, "status", "observedGeneration") != metadata_of(other).get("generation"):
        return f"depends on Application {key}, whose latest spec is not reconciled yet"
    ready = find_condition(other.get("status") or {}, READY)
    if ready.get("status") != "True":
        return f"depends on Application {key}, which is not ready: {ready.get('reason', 'Unknown')}"
    follows = (at(other, "spec", "source", "repoURL"), at(other, "spec", "source", "revision", default="main"))
    if follows == (app.source.repo_url, app.source.revision) and at(other, "status", "revision", "applied") != commit:
        return f"depends on Application {key}, which is not at commit {commit[:12]} yet"
    return ""


def _cycle(key: str, depends_on: tuple[str, ...], find: Find) -> tuple[str, ...]:
    """Return a dependency path that leads back to the Application, empty when there is none."""
    paths: list[tuple[str, ...]] = [(key, other) for other in depends_on]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        last = path[-1]
        if last == key:
            return path
        if last not in seen:
            seen.add(last)
            paths += [(*path, other) for other in dependencies_of(find(last) or {})]
    return ()
