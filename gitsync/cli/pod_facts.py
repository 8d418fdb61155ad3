"""What the Pods of Applications do now: node, restarts, last end, and what they use of what they may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gitsync.kube.quantity import parse
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.running import POD

_RESOURCES: Final = ("cpu", "memory")
_UNKNOWN: Final = "-"
Usage = Mapping[tuple[str, str], Manifest]
"""The PodMetrics by namespace and name."""


def pod_rows(applications: Iterable[Manifest], parts: Iterable[Manifest], usage: Usage) -> list[dict[str, Any]]:
    """
    Return a row for each Pod of a workload that an Application holds, those that restarted most first.

    ``parts`` are the live Pods, and the objects that own them: workloads, ReplicaSets, Agents.
    """
    live = {str(metadata_of(part).get("uid")): part for part in parts}
    holders = {
        ref: f"{metadata_of(app).get('namespace')}/{metadata_of(app).get('name')}"
        for app in applications
        for ref in Inventory.from_status(app.get("status") or {}).entries
    }
    rows = [
        {"application": application, **_row(pod, usage)}
        for pod in live.values()
        if ref_of(pod).of == POD and (application := _holder(pod, live, holders))
    ]
    return sorted(rows, key=lambda row: (-row["restarts"], row["application"], row["pod"]))


def _holder(pod: Manifest, live: Mapping[str, Manifest], holders: Mapping[ObjectRef, str]) -> str:
    """Return the Application that holds a Pod or one of its owners, empty where none does."""
    owner: Manifest | None = pod
    for _ in range(5):  # Pod, ReplicaSet, Deployment, Agent, MultiAgentSystem
        if owner is None:
            return ""
        if ref_of(owner) in holders:
            return holders[ref_of(owner)]
        reference = _controller(owner)
        named = ObjectRef(
            str(reference.get("apiVersion", "")).rpartition("/")[0],
            str(reference.get("kind", "")),
            str(metadata_of(owner).get("namespace", "")),
            str(reference.get("name", "")),
        )
        # the owner itself need not be among the parts: a reference names it
        if named in holders:
            return holders[named]
        owner = live.get(str(reference.get("uid")))
    return ""


def _controller(manifest: Manifest) -> Mapping[str, Any]:
    owners = metadata_of(manifest).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _row(pod: Manifest, usage: Usage) -> dict[str, Any]:
    metadata = metadata_of(pod)
    statuses = at(pod, "status", "containerStatuses", default=None) or ()
    used = usage.get((str(metadata.get("namespace")), str(metadata.get("name"))))
    return {
        "namespace": metadata.get("namespace", ""),
        "pod": metadata.get("name", ""),
        "node": at(pod, "spec", "nodeName", default="") or _UNKNOWN,
        "state": _state(pod, statuses),
        "restarts": sum(int(status.get("restartCount") or 0) for status in statuses),
        "ended": _last_end(statuses) or _UNKNOWN,
        **{
            f"{resource}{part}": value
            for resource in _RESOURCES
            for part, value in (
                ("", _total((at(used, "containers", default=None) or ()), ("usage", resource))),
                ("Request", _total(_containers(pod), ("resources", "requests", resource), is_partial=True)),
                ("Limit", _total(_containers(pod), ("resources", "limits", resource))),
            )
        },
    }


def _state(pod: Manifest, statuses: Iterable[Manifest]) -> str:
    """Return why a container waits, such as ``CrashLoopBackOff``, else the phase."""
    reasons = (str(at(status, "state", "waiting", "reason", default="")) for status in statuses)
    return next(filter(None, reasons), "") or str(at(pod, "status", "phase", default="")) or _UNKNOWN


def _last_end(statuses: Iterable[Manifest]) -> str:
    """Return why a container ended last, such as ``OOMKilled``, with the time; empty where none has ended."""
    ends = [end for status in statuses for end in _ends(status)]
    last = max(ends, key=lambda end: str(end.get("finishedAt", "")), default=None)
    if last is None:
        return ""
    reason = last.get("reason") or f"exit code {last.get('exitCode')}"
    return f"{reason} {last.get('finishedAt', '')}".strip()


def _ends(status: Manifest) -> Iterator[Manifest]:
    for member in ("state", "lastState"):
        end = at(status, member, "terminated")
        if isinstance(end, dict):
            yield end


def _containers(pod: Manifest) -> tuple[Manifest, ...]:
    return tuple(at(pod, "spec", "containers", default=None) or ())


def _total(items: Iterable[Manifest], path: tuple[str, ...], *, is_partial: bool = False) -> str:
    """
    Return the sum of a quantity, in millicores or MiB; ``-`` where an item has none, or all where it may be partial.

    A Pod has no limit where one of its containers has none, but the requests of the others count for the scheduler.
    """
    values = [at(item, *path) for item in items]
    amounts = [parse(str(value)).nanos for value in values if value is not None]
    if not amounts or (len(amounts) < len(values) and not is_partial):
        return _UNKNOWN
    return f"{sum(amounts) // 10**6}m" if path[-1] == "cpu" else f"{sum(amounts) // (10**9 << 20)}Mi"
