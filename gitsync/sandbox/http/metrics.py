"""
The API ``metrics.k8s.io`` as metrics-server serves it: what Pods and Nodes use of CPU and memory.

A container that runs as a process is measured. One that is simulated uses nothing; annotations of its Pod give values,
and a Pod without any is left out, as one that metrics-server has not measured yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitsync.kube.openapi import Subresource
from gitsync.kube.quantity import parse
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, uid_of
from gitsync.sandbox import errors
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime, ContainerUsage
from gitsync.sandbox.http.listing import ListSelection, Page
from gitsync.sandbox.http.route import RequestRoute
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.storage import Stored

GROUP = "metrics.k8s.io"
USAGE_CPU = "sandbox.gitsync.dev/usage-cpu"
"""Annotation of a Pod: the CPU that each of its simulated containers uses, as a quantity."""
USAGE_MEMORY = "sandbox.gitsync.dev/usage-memory"
"""The same of memory."""
_VERSION = "v1beta1"
_NO_SUBRESOURCES: tuple[Subresource, ...] = ()
# metrics-server: --metric-resolution, the window that values of annotations claim.
_WINDOW = 15.0


def metrics_resources() -> tuple[ServedResource, ServedResource]:
    """Return the resources of the group, nodes and pods."""
    return _resource("nodes", "NodeMetrics", namespaced=False), _resource("pods", "PodMetrics", namespaced=True)


def _resource(plural: str, kind: str, *, namespaced: bool) -> ServedResource:
    return ServedResource(
        group=GROUP,
        version=_VERSION,
        plural=plural,
        singular="",
        kind=kind,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        verbs=("get", "list"),
        short_names=(),
        categories=(),
        subresources=_NO_SUBRESOURCES,
        storage=f"{GROUP}/{plural}",
        storage_version=f"{GROUP}/{_VERSION}",
        aggregated=True,
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """CPU in nanocores, memory in bytes, and the seconds that they were measured over."""

    cpu: int
    memory: int
    window: float

    def to_dict(self) -> dict[str, str]:
        """Return the usage as metrics-server spells it: nanocores, and kibibytes."""
        return {"cpu": f"{self.cpu}n", "memory": f"{self.memory // 1024}Ki"}


class MetricsApi:
    """Answer reads of the group; nothing of it is stored."""

    def __init__(self, cluster: SandboxCluster, runtime: ContainerRuntime | None) -> None:
        self._cluster = cluster
        self._runtime = runtime

    def get(self, resource: ServedResource, route: RequestRoute) -> Manifest:
        """Return the metrics of one Pod or Node; raise the 404 of metrics-server for one without any."""
        for metrics in self._all(resource, route.namespace):
            if metrics["metadata"]["name"] == route.name:
                return metrics
        named = f"{route.namespace}/{route.name}" if resource.namespaced else route.name
        raise errors.not_found(resource.kind.lower(), GROUP, named)

    def page(self, resource: ServedResource, selected: ListSelection) -> Page:
        """Return all selected metrics in one page."""
        metrics = (obj for obj in self._all(resource, selected.namespace) if selected.has(obj))
        return Page([Stored(obj, 0) for obj in metrics], self._cluster.store.revision)

    def _all(self, resource: ServedResource, namespace: str) -> Iterator[Manifest]:
        usage = self._runtime.usage() if self._runtime is not None else {}
        pods = list(self._cluster.list("", "Pod", namespace))
        if resource.namespaced:
            for pod in pods:
                uses = _uses(pod, usage)
                if uses:
                    yield self._pod_metrics(resource, pod, uses)
            return
        for node in self._cluster.list("", "Node"):
            on_node = (pod for pod in pods if at(pod, "spec", "nodeName") == node["metadata"]["name"])
            uses_on_node = [use for pod in on_node for use in _uses(pod, usage).values()]
            total = _Use(
                sum(use.cpu for use in uses_on_node),
                sum(use.memory for use in uses_on_node),
                max((use.window for use in uses_on_node), default=_WINDOW),
            )
            yield self._metrics(resource, node, total.window) | {"usage": total.to_dict()}

    def _pod_metrics(self, resource: ServedResource, pod: Manifest, uses: Mapping[str, _Use]) -> Manifest:
        containers = [{"name": name, "usage": use.to_dict()} for name, use in uses.items()]
        window = max(use.window for use in uses.values())
        return self._metrics(resource, pod, window) | {"containers": containers}

    def _metrics(self, resource: ServedResource, of: Manifest, window: float) -> Manifest:
        now = self._cluster.clock.timestamp()
        metadata = {key: of["metadata"][key] for key in ("name", "namespace") if key in of["metadata"]} | {
            "creationTimestamp": now
        }
        if labels_of(of):
            metadata["labels"] = labels_of(of)  # kubectl top selects by them
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "timestamp": now,
            "window": f"{window:.3f}s",
        }


def _uses(pod: Manifest, measured: Mapping[tuple[str, str], ContainerUsage]) -> dict[str, _Use]:
    """Return the use of each running container of a Pod that has one."""
    uses: dict[str, _Use] = {}
    notes = annotations_of(pod)
    statuses = [*(at(pod, "status", "initContainerStatuses") or ()), *(at(pod, "status", "containerStatuses") or ())]
    for status in statuses:
        usage = measured.get((uid_of(pod), status["name"]))
        if usage is not None:
            uses[status["name"]] = _Use(int(usage.cores * 10**9), usage.memory, usage.window)
        elif "running" in status["state"] and (USAGE_CPU in notes or USAGE_MEMORY in notes):
            cpu = _nanos(notes.get(USAGE_CPU, "0"))
            uses[status["name"]] = _Use(cpu, _nanos(notes.get(USAGE_MEMORY, "0")) // 10**9, _WINDOW)
    return uses


def _nanos(quantity: str) -> int:
    try:
        return parse(quantity).nanos
    except ValueError:
        return 0  # any text may be in an annotation
