"""One object: its differences, conditions, relations and manifests; its Kubernetes Events; the logs of its Pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse

from gitsync.errors import GitsyncError, Refused, WrongState
from gitsync.health.assess import assess
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.plan.display import declared_content
from gitsync.ports import ApplicationView, KubernetesEvent, LogRequest
from gitsync.server.backend import Backend
from gitsync.server.dependencies import FoundOf, PagesOf, RequestsOf, UserOf, ViewOf
from gitsync.server.formatting import visible
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.charts import usage_charts
from gitsync.server.queries.differences import manifest_text, object_differences
from gitsync.server.queries.log_lines import Level, LogFilter, LogLine, as_text, in_order, read_log
from gitsync.server.queries.object_details import (
    LOGGED,
    ContainerLog,
    FoundObject,
    chosen_log,
    containers_of,
    events_of,
    pod_facts,
    pods_of,
    related,
)
from gitsync.server.queries.tree import Owned, health_with_parts
from gitsync.services.requests import UserRequests
from gitsync.services.workloads import WorkloadAction, action_for

router = APIRouter(prefix="/apps/{namespace}/{name}/object")

_PARTS = 100
_LINES = 200
_MOST_LINES = 2000
_PODS = 20
"""Pods whose logs are shown together; one request is made for each."""
ALL_PODS = "*"
"""What is chosen instead of the name of a Pod to read the logs of all of them."""


@router.get("", response_class=HTMLResponse)
def summary(
    request: Request, pages: PagesOf, requests: RequestsOf, view: ViewOf, user: UserOf, subject: FoundOf
) -> HTMLResponse:
    """Show the differences of an object, its conditions, its relations and both manifests."""
    item = subject.item
    live = subject.live
    desired = subject.desired
    pods = pods_of(pages.engine, subject.live)[:_PARTS]
    metrics = pages.engine.pod_usage.by_pod() if pods else {}
    return show_application(
        pages,
        request,
        view,
        "object",
        **_frame(subject, "summary"),
        action=_possible(requests, view, live, user) if live is not None else None,
        item=object_differences(pages.engine, view, [item])[0] if item is not None else None,
        live=_live_text(live) if live is not None else "",
        desired=manifest_text(declared_content(desired)) if desired is not None else "",
        conditions=[item for item in at(live, "status", "conditions", default=[]) or [] if isinstance(item, dict)],
        owners=[item for item in metadata_of(live or {}).get("ownerReferences") or [] if isinstance(item, dict)],
        parts_of=_parts_of(pages.engine.view.dependents(view.key, subject.ref), pages.engine.view.owned_by),
        pods=[(ref_of(pod), assess(pod).health.value) for pod in pods],
        charts=usage_charts(pages.engine, subject.ref, pods, metrics),
        facts={ref_of(pod): visible(str(pod_facts(pod, metrics))) for pod in pods},
        **related(subject),
        known={item.ref for item in view.resources},
    )


@router.get("/events", response_class=HTMLResponse)
def events(request: Request, pages: PagesOf, view: ViewOf, subject: FoundOf) -> HTMLResponse:
    """Show the Kubernetes Events about an object, read from the API server now."""
    problem = ""
    read = tuple[KubernetesEvent, ...]()
    try:
        read = events_of(pages.engine, subject)
    except GitsyncError as error:
        problem = f"The Events cannot be read: {error}"
    return show_application(
        pages, request, view, "object_events", **_frame(subject, "events"), events=read, problem=problem
    )


@dataclass(frozen=True, slots=True)
class LogChoice:
    """What a user chose on the page of logs; ``previous`` None is the instance that explains the state of the Pod."""

    pod: str
    container: str
    previous: bool | None
    lines: int
    filter: LogFilter
    has_times: bool


def log_choice(
    pod: Annotated[str, Query(max_length=253)] = "",
    container: Annotated[str, Query(max_length=63)] = "",
    previous: bool | None = None,
    lines: Annotated[int, Query(ge=1, le=_MOST_LINES)] = _LINES,
    q: Annotated[str, Query(max_length=200)] = "",
    level: Level = Level.OTHER,
    probes: bool = False,
    times: bool = False,
) -> LogChoice:
    """Return what the query of a page of logs chooses."""
    return LogChoice(pod, container, previous, lines, LogFilter(q, level, probes), times)


ChoiceOf = Annotated[LogChoice, Depends(log_choice)]


@router.get("/logs", response_class=HTMLResponse)
def logs(
    request: Request,
    pages: PagesOf,
    view: ViewOf,
    subject: FoundOf,
    choice: ChoiceOf,
    follow: bool = False,
    wrap: bool = True,
) -> HTMLResponse:
    """Show the last lines of the log of a container, or of one of each Pod by time, read from the API server now."""
    pods = pods_of(pages.engine, subject.live)
    chosen = _chosen_pods(pods, choice)
    log, problem = _read_logs(pages.engine, chosen, choice)
    matching = choice.filter.matching(log)
    lines = choice.filter.without_probes(matching)
    first = chosen_log(chosen[0], choice.container, choice.previous) if chosen else ContainerLog("", is_previous=False)
    pod = ALL_PODS if len(chosen) > 1 else ref_of(chosen[0]).name if chosen else ""
    return show_application(
        pages,
        request,
        view,
        "object_logs",
        **_frame(subject, "logs"),
        choice=choice,
        pods=[ref_of(item).name for item in pods],
        pod=pod,
        all_pods=ALL_PODS,
        containers=containers_of(chosen[0]) if chosen else [],
        download=urlencode(_download_of(subject, choice, pod, first)),
        container=first.container,
        previous=first.is_previous,
        levels={Level.OTHER: "all", Level.WARNING: "warnings and errors", Level.ERROR: "errors"},
        # a log that cannot be read is not loaded again automatically
        follow=follow and not problem,
        wrap=wrap,
        matching=len(matching),
        read=len(log),
        has_no_times=choice.has_times and not all(line.time for line in log),
        hidden=len(matching) - len(lines),
        lines=lines,
        problem=problem,
    )


@router.get("/logs.txt", response_class=PlainTextResponse)
def download(pages: PagesOf, subject: FoundOf, choice: ChoiceOf) -> PlainTextResponse:
    """Return what the page of logs shows as a text file."""
    chosen = _chosen_pods(pods_of(pages.engine, subject.live), choice)
    log, problem = _read_logs(pages.engine, chosen, choice)
    if problem:
        # not a file that reads as if all of the log were in it
        return PlainTextResponse(problem, 502)
    lines = choice.filter.without_probes(choice.filter.matching(log))
    return PlainTextResponse(as_text(lines, has_times=choice.has_times))


def _download_of(subject: FoundObject, choice: LogChoice, pod: str, log: ContainerLog) -> dict[str, str | int]:
    """Return the query of the file with what the page shows, and with as many lines of it as can be read."""
    query: dict[str, str | int] = {"ref": subject.ref.path, "pod": pod, "container": log.container}
    query |= {"previous": str(log.is_previous).lower(), "lines": _MOST_LINES, "times": str(choice.has_times).lower()}
    query |= {"q": choice.filter.text, "level": choice.filter.least.value}
    return query | {"probes": str(choice.filter.has_probes).lower()}


def _chosen_pods(pods: Sequence[Manifest], choice: LogChoice) -> list[Manifest]:
    """Return the Pods whose logs are read: the one that is named, all, or the one that fails first."""
    if choice.pod == ALL_PODS:
        return list(pods[:_PODS])
    return [item for item in pods if ref_of(item).name == choice.pod][:1] or list(pods[:1])


def _read_logs(backend: Backend, pods: Sequence[Manifest], choice: LogChoice) -> tuple[list[LogLine], str]:
    """Return the lines of the logs of Pods, and why some cannot be read, empty where all can."""
    logs: list[list[LogLine]] = []
    problems: list[str] = []
    is_one = len(pods) == 1
    for pod in pods:
        ref = ref_of(pod)
        log = chosen_log(pod, choice.container, choice.previous)
        # with times, by which the lines of several Pods are put in order
        asked = LogRequest(ref.namespace, ref.name, log.container, log.is_previous, choice.lines, has_times=True)
        try:
            logs.append(read_log(backend.details.logs(asked), "" if is_one else ref.name))
        except GitsyncError as error:
            # the logs of the other Pods are shown
            problems.append(str(error) if is_one else f"{ref.name}: {error}")
    return in_order(logs), f"The log cannot be read: {'; '.join(problems)}" if problems else ""


def _parts_of(dependents: Sequence[Manifest], owned: Owned) -> list[tuple[ObjectRef, str]]:
    """Return what an object owns with its health, besides Pods; ReplicaSets without Pods are its past revisions."""
    parts = (
        part
        for part in dependents
        if part.get("kind") != "Pod" and (part.get("kind") != "ReplicaSet" or at(part, "spec", "replicas", default=1))
    )
    return [(ref_of(part), health_with_parts(part, owned).value) for part in islice(parts, _PARTS)]


def _possible(requests: UserRequests, view: ApplicationView, live: Manifest, user: User) -> WorkloadAction | None:
    """Return what a user may request for an object, None where nothing fits it or they may not."""
    action = action_for(live)
    if action is None:
        return None
    try:
        requests.check_workload(view, action, live, user)
    except (Refused, WrongState):
        return None
    return action


def _frame(subject: FoundObject, shown: str) -> dict[str, Any]:
    return {"ref": subject.ref, "shown": shown, "has_logs": subject.ref.kind in LOGGED and subject.live is not None}


def _live_text(live: Manifest) -> str:
    # hidden as by kubectl since 1.21: long, and for machines
    return manifest_text({**live, "metadata": {k: v for k, v in metadata_of(live).items() if k != "managedFields"}})
