"""ApplicationSets that wait for a person or failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.server.formatting import visible

_AT_WORK = ("Current", "Writing", "")


@dataclass(frozen=True, slots=True)
class SetProblem:
    """A set that is not Ready: the reason of its condition, what to do, and since when (RFC 3339)."""

    namespace: str
    name: str
    state: str
    reason: str
    since: str


def set_problems(sets: Iterable[Manifest]) -> list[SetProblem]:
    """Return the sets that wait for an approval or failed, the oldest first."""
    found = (_problem(one) for one in sets)
    return sorted(
        (one for one in found if one.state not in _AT_WORK), key=lambda one: (one.since, one.namespace, one.name)
    )


def _problem(manifest: Manifest) -> SetProblem:
    status = manifest.get("status") or {}
    ready = find_condition(status, READY)
    since = at(status, "heldDeletions", "since") or ready.get("lastTransitionTime", "")
    return SetProblem(
        namespace=str(metadata_of(manifest).get("namespace", "")),
        name=str(metadata_of(manifest).get("name", "")),
        state=str(ready.get("reason", "")) if ready.get("status") == "False" else "",
        reason=visible(str(ready.get("message", ""))),
        since=str(since),
    )
