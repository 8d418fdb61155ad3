"""``gitsync top``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from gitsync.cli.applications import all_applications, connect
from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import AnyNamespace, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.pod_facts import pod_rows
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.watch import KindCollection
from gitsync.errors import GitsyncError
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import GroupKind

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
    rows = map(_row, costs) if output in (Format.TABLE, Format.WIDE) else costs
    show(rows, _COLUMNS, output, key=_NAME)
    return Exit.OK


def _row(item: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table, with a column for each stage in a wide one."""
    stages = {stage: f"{spent['seconds']:.3f}" for stage, spent in item["stages"].items()}
    slowest = f"{item['slowest']} {stages.get(item['slowest'], '')}".strip()
    shown = {"requests": item["apiRequests"], "cpu": f"{item['cpuSeconds']:.3f}", "seconds": f"{item['seconds']:.3f}"}
    return {name: value for name, value in item.items() if name not in _RENAMED} | shown | {"slowest": slowest} | stages


def _pods(place: ClusterTarget, namespace: str, limit: int, output: Format) -> Exit:
    """List the Pods of Applications, those that restarted most first."""
    client = connect(place.cluster)
    cluster = KubernetesCluster(client)
    parts = [manifest for of in _OWNERS for manifest in _listed(client, cluster, of, namespace)]
    rows = pod_rows(all_applications(client), parts, _usage(client, cluster, namespace))[:limit]
    if not rows and output is Format.TABLE:
        say("no Pods of Applications")
        return Exit.OK
    show(rows, _POD_COLUMNS, output, key=("namespace", "pod"))
    return Exit.OK


def _listed(client: Client, cluster: KubernetesCluster, of: GroupKind, namespace: str) -> Iterator[Manifest]:
    resource = cluster.any_version(of)
    if resource is not None:
        yield from KindCollection(client, resource, namespace).list().items.values()


def _usage(client: Client, cluster: KubernetesCluster, namespace: str) -> dict[tuple[str, str], Manifest]:
    """Return the PodMetrics by namespace and name; none where no metrics server runs or answers."""
    try:
        metrics = list(_listed(client, cluster, GroupKind("metrics.k8s.io", "PodMetrics"), namespace))
    # everything else about the Pods is worth showing without what they use
    except GitsyncError:
        return {}
    return {(str(metadata_of(item).get("namespace")), str(metadata_of(item).get("name"))): item for item in metrics}
