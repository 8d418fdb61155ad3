"""One object of an application, or a part of one such as a Pod: its manifests, Pods, and what refers to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from gitsync.health.assess import assess
from gitsync.kube.quantity import parse
from gitsync.kube.references import Relation, pod_template, references
from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at, group_of, labels_of, uid_of
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView, KubernetesEvent, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.formatting import app_url, visible
from gitsync.server.queries.agents import FoundAgent
from gitsync.services.usage import PodMetrics, UsageSample

LOGGED = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
"""Kinds with Pods, of which there are logs."""
_DEPTH = 3
"""Levels of owners from an object down to its Pods: Agent, Deployment, ReplicaSet, Pod."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object of an application, or a part of one such as a Pod; ``item`` is None for a part."""

    app: ApplicationView
    ref: ObjectRef
    item: ResourceView | None
    live: Manifest | None

    @property
    def desired(self) -> Manifest | None:
        """The manifest that Git declares."""
        return self.item.change.desired if self.item is not None else None

    @property
    def manifest(self) -> Manifest:
        """The live manifest, else the one that Git declares."""
        return self.live or self.desired or {}


@dataclass(frozen=True, slots=True)
class LastChange:
    """
    What removed an object or changed it last: an action of a sync or of a user, at a time (aware).

    ``commit`` is the full id of what was synced, empty for an action of a user; ``sync`` is 0 where only the audit has
    the change.
    """

    action: str
    time: datetime
    commit: str
    person: str
    sync: int = 0

    @property
    def is_removal(self) -> bool:
        """Whether it took the object out of the cluster, or out of its Application."""
        return self.action in REMOVED


REMOVED: Final = {"prune": "pruned", "release": "released (it stays in the cluster)", "delete-pod": "deleted"}
"""Past participles of the actions after which an object has no page any more."""


def last_change(backend: Backend, key: str, ref: ObjectRef) -> LastChange | None:
    """Return the last change of an object by its Application or a user, None where no record has one."""
    for record in backend.records.history(key):
        for step in record.steps:
            if step.ref == ref.path and step.outcome is Outcome.SUCCEEDED:
                return LastChange(step.action, record.started, record.commit.id, record.commit.author, record.id)
    # the audit is kept longer than the history, and has what users did to Pods
    links = backend.records.audit_records(key, resource=ref.path, outcome=Outcome.SUCCEEDED.value, limit=1)
    return next(
        (LastChange(link.action, link.timestamp, link.commit, link.approver or link.author) for link in links), None
    )


def last_sync(backend: Backend, key: str) -> LastChange | None:
    """Return the last sync of an owner that may be gone, None where no history has one."""
    return next(
        (
            LastChange(record.trigger, record.started, record.commit.id, record.commit.author, record.id)
            for record in backend.records.history(key, limit=1)
        ),
        None,
    )


def events_of(backend: Backend, subject: FoundObject) -> tuple[KubernetesEvent, ...]:
    """Return the Kubernetes Events about an object, read now; none about one that its Application may not read."""
    if subject.item is not None and subject.item.change.unobserved:
        return ()
    return tuple(backend.details.events(subject.ref))


def related(subject: FoundObject) -> dict[str, Any]:
    """Return what an object uses, what it selects and what uses it."""
    others = subject.app.resources
    return {
        "uses": references(subject.ref, subject.manifest),
        "selects": selected_by(subject.ref, subject.manifest, others),
        "used": users_of(others).get(subject.ref, []),
    }


def pods_of(backend: Backend, live: Manifest | None) -> list[Manifest]:
    """Return the Pod itself, or the Pods that an object owns: failing ones first, then by health and name."""
    if live is None:
        return []
    found_pods = [item for item in _below(backend, live, _DEPTH) if item.get("kind") == "Pod"]
    return sorted(found_pods, key=_by_trouble)


def _by_trouble(pod: Manifest) -> tuple[bool, int, str]:
    # a failing container outranks a health that is not known, which is the worst one
    return (_failing_container(pod) is None, -assess(pod).health.badness, ref_of(pod).name)


RESOURCES: Final = ("cpu", "memory")
"""The resources of a container that are shown."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """
    What a Pod does now; a text is empty where it is not known.

    ``state`` is why a container waits, such as ``CrashLoopBackOff``, else the phase. ``ended`` is why a container
    ended last, such as ``OOMKilled``, with the time. Amounts are by resource, in millicores and MiB; ``usage`` is
    empty where no metrics server knows the Pod.
    """

    node: str
    state: str
    restarts: int
    ended: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    usage: Mapping[str, str]

    def __str__(self) -> str:
        parts = [f"on {self.node}"] if self.node else []
        # Running and Pending are what its health tells already
        parts += [self.state] if self.state not in ("Pending", "Running") else []
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' if self.restarts > 1 else ''}")
        parts += [f"ended last: {self.ended}"] if self.ended else []
        for name, amounts in (("uses", self.usage), ("requests", self.requests), ("limits", self.limits)):
            known = [f"{amount} {resource}" for resource, amount in amounts.items() if amount]
            parts += [f"{name} {' and '.join(known)}"] if known else []
        return ", ".join(filter(None, parts))


def pod_facts(pod: Manifest, metrics: PodMetrics) -> PodFacts:
    """Return what a Pod does now: its node, state, restarts, last end, what it may use and what it uses."""
    ref = ref_of(pod)
    measured = at(metrics.get((ref.namespace, ref.name)), "containers", default=None) or ()
    statuses = at(pod, "status", "containerStatuses", default=None) or ()
    containers = at(pod, "spec", "containers", default=None) or ()
    waiting = (str(at(status, "state", "waiting", "reason", default="")) for status in statuses)
    return PodFacts(
        str(at(pod, "spec", "nodeName", default="")),
        next(filter(None, waiting), "") or str(at(pod, "status", "phase", default="")),
        sum(int(status.get("restartCount") or 0) for status in statuses),
        _last_end(statuses),
        {name: _total(containers, ("resources", "requests", name), is_partial=True) for name in RESOURCES},
        {name: _total(containers, ("resources", "limits", name)) for name in RESOURCES},
        {name: _total(measured, ("usage", name)) for name in RESOURCES},
    )


def _last_end(statuses: Iterable[Manifest]) -> str:
    ends = [
        end
        for status in statuses
        for member in ("state", "lastState")
        if isinstance(end := at(status, member, "terminated"), dict)
    ]
    last = max(ends, key=lambda end: str(end.get("finishedAt", "")), default=None)
    if last is None:
        return ""
    reason = last.get("reason") or f"exit code {last.get('exitCode')}"
    return f"{reason} {last.get('finishedAt', '')}".strip()


def _total(items: Iterable[Manifest], path: tuple[str, ...], *, is_partial: bool = False) -> str:
    """
    Return the sum of a quantity, in millicores or MiB; empty where an item has none, or all where it may be partial.

    A Pod has no limit where one of its containers has none, but the requests of the others count for the scheduler.
    """
    total = _amount(items, path, is_partial=is_partial)
    return "" if total is None else f"{total}m" if path[-1] == "cpu" else f"{total}Mi"


def _amount(items: Iterable[Manifest], path: tuple[str, ...], *, is_partial: bool = False) -> int | None:
    values = [at(item, *path) for item in items]
    amounts = [parse(str(value)).nanos for value in values if value is not None]
    if not amounts or (len(amounts) < len(values) and not is_partial):
        return None
    return sum(amounts) // (10**6 if path[-1] == "cpu" else 10**9 << 20)


def usage_sample(pods: Sequence[Manifest], metrics: PodMetrics, time: datetime) -> UsageSample:
    """Return what Pods use together now; an amount is None where no Pod has one."""
    measured = [
        container
        for pod in pods
        for container in at(metrics.get((ref_of(pod).namespace, ref_of(pod).name)), "containers", default=None) or ()
    ]
    cpu, memory = (_amount(measured, ("usage", name)) for name in RESOURCES)
    return UsageSample(time, cpu, memory, sum(pod_facts(pod, metrics).restarts for pod in pods))


def usage_limits(pods: Sequence[Manifest]) -> tuple[int | None, int | None]:
    """Return the limits of Pods together in millicores and MiB, None where a container has none."""
    containers = [item for pod in pods for item in at(pod, "spec", "containers", default=None) or ()]
    cpu, memory = (_amount(containers, ("resources", "limits", name)) for name in RESOURCES)
    return cpu, memory


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of a Pod that explains its state: of which container, and whether it is that before its last restart."""

    container: str
    is_previous: bool


def telling_log(pod: Manifest) -> ContainerLog:
    """Return the log that explains the state of a Pod: that of the container that fails, else of the first one."""
    failing = _failing_container(pod)
    if failing is None:
        # the default of kubectl as well
        return ContainerLog(str(at(pod, "spec", "containers", 0, "name", default="")), is_previous=False)
    # while it waits for its next start, the log of the crash is that of the instance before
    is_previous = "waiting" in (failing.get("state") or {}) and bool(at(failing, "lastState", "terminated"))
    return ContainerLog(str(failing.get("name", "")), is_previous)


def chosen_log(pod: Manifest, container: str, previous: bool | None) -> ContainerLog:
    """Return the log of a Pod that a user chose; where they did not, that which explains its state."""
    telling = telling_log(pod)
    # the container of the Pod that was shown before need not exist in this one
    name = container if container in containers_of(pod) else telling.container
    # absent: the page was opened by a link, and not by its form
    is_previous = telling.is_previous and name == telling.container if previous is None else previous
    return ContainerLog(name, is_previous)


def containers_of(pod: Manifest) -> list[str]:
    """Return the names of the containers of a Pod."""
    spec = pod.get("spec") or {}
    # the first name is the default: init containers have usually ended
    return [str(item.get("name")) for item in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]


def _failing_container(pod: Manifest) -> Manifest | None:
    """Return the status of the first container that fails, None where none does."""
    statuses = (
        status
        # init containers first: the others do not start before them
        for member in ("initContainerStatuses", "containerStatuses")
        for status in at(pod, "status", member, default=[]) or []
        if isinstance(status, dict)
    )
    return next(filter(_is_failing, statuses), None)


def _is_failing(status: Manifest) -> bool:
    """Return whether a container crashed, cannot start, or is not ready after a crash."""
    if at(status, "state", "terminated", "exitCode", default=0):
        return True
    waiting = str(at(status, "state", "waiting", "reason", default=""))
    if waiting and waiting not in ("ContainerCreating", "PodInitializing"):
        return True
    return not status.get("ready") and bool(at(status, "lastState", "terminated", "exitCode", default=0))


def _below(backend: Backend, manifest: Manifest, depth: int) -> list[Manifest]:
    uid = uid_of(manifest)
    parts = backend.view.owned_by(uid) if uid and depth else ()
    return [manifest, *(item for part in parts for item in _below(backend, part, depth - 1))]


def selected_by(ref: ObjectRef, manifest: Manifest, others: Iterable[ResourceView]) -> tuple[Relation, ...]:
    """Return the workloads among others whose Pods the selector of a Service, policy or budget matches."""
    selector = _selector(ref, manifest)
    if selector is None:
        return ()
    selected = []
    for other in others:
        template = pod_template(other.change.live or other.change.desired or {})
        if template and other.ref.namespace == ref.namespace and matches(selector, labels_of(template)):
            selected.append(Relation("selects", other.ref))
    return tuple(selected)


def users_of(objects: Iterable[ResourceView]) -> dict[ObjectRef, list[Relation]]:
    """Return the objects that refer to each object, read once for all: a page may ask for a thousand of them."""
    users: dict[ObjectRef, list[Relation]] = {}
    for user in objects:
        for reference in references(user.ref, user.change.live or user.change.desired or {}):
            if reference.ref != user.ref:
                users.setdefault(reference.ref, []).append(Relation(reference.relation, user.ref))
    return users


def _selector(ref: ObjectRef, manifest: Manifest) -> Mapping[str, Any] | None:
    match ref.kind:
        case "Service":
            selector = at(manifest, "spec", "selector", default=None)
            # without a selector a Service has Endpoints that others write
            return {"matchLabels": selector} if selector else None
        case "NetworkPolicy":
            selector = at(manifest, "spec", "podSelector", default=None)
            # an empty selector selects every Pod of the namespace
            return selector if isinstance(selector, dict) else None
        case "PodDisruptionBudget":
            selector = at(manifest, "spec", "selector", default=None)
            return selector if isinstance(selector, dict) else None
    return None


def agent_children(backend: Backend, subject: FoundAgent) -> list[dict[str, Any]]:
    """Return the children that the status of an agent lists, with the paths of their pages where they have one."""
    listed = (child for child in at(subject.live, "status", "children") or () if isinstance(child, dict))
    children = []
    for child in listed:
        kind = str(child.get("kind", ""))
        group = group_of(str(child.get("apiVersion", "")))
        ref = ObjectRef(group, kind, subject.ref.namespace, str(child.get("name", "")))
        # a copy: the status belongs to the live object, which is read only
        # kinds that no Application declares are not watched, so that their objects have no page
        has_page = backend.view.live(subject.application, ref) is not None
        children.append(
            {"ready": True, **child, "path": ref.path, "has_page": has_page, "has_logs": has_page and kind in LOGGED}
        )
    return children


def log_pages(subject: FoundAgent, children: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the pages of the logs of an agent, each with the workload that writes it unless it is the agent itself."""
    paths = [(subject.ref.path, "")] if subject.ref.kind in LOGGED else []
    paths += [(child["path"], f"{child['kind']} {child['name']}") for child in children if child["has_logs"]]
    folder = app_url(subject.application)
    return [(f"{folder}/object/logs?ref={quote(path)}", visible(label)) for path, label in paths]
