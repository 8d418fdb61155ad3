"""``gitsync top``: what the Pods of Applications do now, and what they use of what they may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from gitsync.cli.applications import all_applications, connect
from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import AnyNamespace, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.watch import listed
from gitsync.errors import GitsyncError
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.running import POD
from gitsync.server.queries.object_details import RESOURCES, pod_facts
from gitsync.services.usage import POD_METRICS, PodMetrics, by_pod

_UNKNOWN: Final = "-"


def pod_rows(applications: Iterable[Manifest], parts: Iterable[Manifest], usage: PodMetrics) -> list[dict[str, Any]]:
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
        {"application": application, **_pod_row(pod, usage)}
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


def _pod_row(pod: Manifest, usage: PodMetrics) -> dict[str, Any]:
    metadata = metadata_of(pod)
    facts = pod_facts(pod, usage)
    return {
        "namespace": metadata.get("namespace", ""),
        "pod": metadata.get("name", ""),
        "node": facts.node or _UNKNOWN,
        "state": facts.state or _UNKNOWN,
        "restarts": facts.restarts,
        "ended": facts.ended or _UNKNOWN,
        **{
            f"{resource}{part}": value or _UNKNOWN
            for resource in RESOURCES
            for part, value in (
                ("", facts.usage[resource]),
                ("Request", facts.requests[resource]),
                ("Limit", facts.limits[resource]),
            )
        },
    }


_NAME = ("namespace", "name")
_RENAMED = ("stages", "cpuSeconds", "apiRequests")
_COLUMNS = ("namespace", "name", "objects", "reconciles", "partial", "requests", "cpu", "seconds", "slowest")
_POD_COLUMNS = (
    *("application", "namespace", "pod", "node", "state", "restarts", "ended"),
    *("cpu", "cpuRequest", "cpuLimit", "memory", "memoryRequest", "memoryLimit"),
)
_OWNERS = (
    *(GroupKind("", "Pod"), GroupKind("apps", "ReplicaSet"), GroupKind("apps", "Deployment")),
    *(GroupKind("apps", "StatefulSet"), GroupKind("apps", "DaemonSet"), GroupKind("batch", "Job")),
    GroupKind(AGENTS_GROUP, "Agent"),
)
"""The kinds of Pods and of what owns them."""


class TopSubject(StrEnum):
    """What is listed."""

    APPLICATIONS = "applications"
    PODS = "pods"


@command
def top(
    dashboard: DashboardOptions,
    place: ClusterTarget,
    what: Annotated[
        TopSubject,
        typer.Argument(
            metavar="[applications|pods]",
            help="applications: what each costs the controller; pods: what their Pods use, and how they ended last.",
        ),
    ] = TopSubject.APPLICATIONS,
    namespace: AnyNamespace = "",
    limit: Annotated[int, typer.Option(min=1, help="The Applications to list, the most CPU time first.")] = 20,
    output: Output = Format.TABLE,
) -> Exit:
    """Show which Applications cost the controller most: reconciles, requests, CPU time, slowest stage."""
    if what is TopSubject.PODS:
        return _pods(place, namespace, limit, output)
    costs = items(dashboard.require(), "costs", limit)
    if not costs and output is Format.TABLE:
        say("no Applications")
        return Exit.OK
    # one replica works on everything, so that the column would only take width
    columns = (*_COLUMNS, "elsewhere") if any(item["elsewhere"] for item in costs) else _COLUMNS
    rows = map(_row, costs) if output in (Format.TABLE, Format.WIDE) else costs
    show(rows, columns, output, key=_NAME)
    return Exit.OK


def _row(item: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table, with a column for each stage in a wide one."""
    stages = {stage: f"{spent['seconds']:.3f}" for stage, spent in item["stages"].items()}
    slowest = f"{item['slowest']} {stages.get(item['slowest'], '')}".strip()
    shown = {
        "requests": item["apiRequests"],
        "cpu": f"{item['cpuSeconds']:.3f}",
        "seconds": f"{item['seconds']:.3f}",
        "slowest": slowest,
        "elsewhere": "yes" if item["elsewhere"] else "no",
    }
    return {name: value for name, value in item.items() if name not in _RENAMED} | shown | stages


def _pods(place: ClusterTarget, namespace: str, limit: int, output: Format) -> Exit:
    """List the Pods of Applications, those that restarted most first."""
    client = connect(place.cluster)
    cluster = KubernetesCluster(client)
    parts = [manifest for of in _OWNERS for manifest in listed(client, cluster, of, namespace)]
    rows = pod_rows(all_applications(client), parts, _usage(client, cluster, namespace))[:limit]
    if not rows and output is Format.TABLE:
        say("no Pods of Applications")
        return Exit.OK
    show(rows, _POD_COLUMNS, output, key=("namespace", "pod"))
    return Exit.OK


def _usage(client: Client, cluster: KubernetesCluster, namespace: str) -> PodMetrics:
    """Return the PodMetrics by namespace and name; none where no metrics server runs or answers."""
    try:
        return by_pod(listed(client, cluster, POD_METRICS, namespace))
    # everything else about the Pods is worth showing without what they use
    except GitsyncError:
        return {}
