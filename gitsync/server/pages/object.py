"""One object: its differences, conditions, relations and manifests; its Kubernetes Events; the logs of its Pods."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError
from gitsync.health.assess import assess
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.display import declared_content
from gitsync.ports import KubernetesEvent
from gitsync.server.dependencies import FoundOf, PagesOf, ViewOf
from gitsync.server.formatting import visible
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.differences import manifest_text, object_differences
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

router = APIRouter(prefix="/apps/{namespace}/{name}/object")

_PARTS = 100
_LINES = 200
_MOST_LINES = 2000
_PROBED = re.compile(
    # what kubelets and load balancers ask for, answered by 2xx: a failed probe is worth reading
    r'"(?:GET|HEAD) /(?:healthz?|readyz?|livez|live|liveness|readiness|startupz?|ping)(?:[/?][^ ]*)? HTTP/[\d.]+" 2\d\d'
)
_ANSWERED = re.compile(r'" 2\d\d ')
_PODS = 20
"""Pods whose logs are shown together; one request is made for each."""
ALL_PODS = "*"
"""What is chosen instead of the name of a Pod to read the logs of all of them."""


@router.get("", response_class=HTMLResponse)
def summary(request: Request, pages: PagesOf, view: ViewOf, subject: FoundOf) -> HTMLResponse:
    """Show the differences of an object, its conditions, its relations and both manifests."""
    item = subject.item
    live = subject.live
    desired = subject.desired
    pods = pods_of(pages.engine, subject)[:_PARTS]
    return show_application(
        pages,
        request,
        view,
        "object",
        **_frame(subject, "summary"),
        item=object_differences(pages.engine, view, [item])[0] if item is not None else None,
        live=_live_text(live) if live is not None else "",
        desired=manifest_text(declared_content(desired)) if desired is not None else "",
        conditions=[item for item in at(live, "status", "conditions", default=[]) or [] if isinstance(item, dict)],
        owners=[item for item in metadata_of(live or {}).get("ownerReferences") or [] if isinstance(item, dict)],
        parts_of=_parts_of(pages.engine.view.dependents(view.key, subject.ref), pages.engine.view.owned_by),
        pods=[(ref_of(pod), assess(pod).health.value) for pod in pods],
        facts={ref_of(pod): visible(str(pod_facts(pod))) for pod in pods},
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


@router.get("/logs", response_class=HTMLResponse)
def logs(
    request: Request,
    pages: PagesOf,
    view: ViewOf,
    subject: FoundOf,
    pod: Annotated[str, Query(max_length=253)] = "",
    container: Annotated[str, Query(max_length=63)] = "",
    previous: bool | None = None,
    follow: bool = False,
    lines: Annotated[int, Query(ge=1, le=_MOST_LINES)] = _LINES,
    q: Annotated[str, Query(max_length=200)] = "",
    probes: bool = False,
) -> HTMLResponse:
    """
    Show the last lines of the log of a container, or of one of each Pod, read from the API server now.

    Lines of probes that succeeded are left out, unless ``probes`` or a search ``q`` asks for them.
    """
    pods = pods_of(pages.engine, subject)
    chosen = next((item for item in pods if ref_of(item).name == pod), pods[0] if pods else None)
    names = containers_of(chosen) if chosen is not None else []
    asked = chosen_log(chosen, container, previous) if chosen is not None else ContainerLog("", is_previous=False)
    is_all = pod == ALL_PODS and len(pods) > 1
    text_lines: list[str] = []
    problems: list[str] = []
    for item in pods[:_PODS] if is_all else filter(None, [chosen]):
        ref = ref_of(item)
        log = chosen_log(item, container, previous)
        try:
            text = pages.engine.details.logs(
                ref.namespace, ref.name, log.container, previous=log.is_previous, lines=lines
            )
        except GitsyncError as error:
            # the logs of the other Pods are shown
            problems.append(f"{ref.name}: {error}" if is_all else str(error))
            continue
        text_lines += [f"{ref.name} {text}" if is_all else text for text in visible(text).splitlines()]
    matching = [text for text in text_lines if q.casefold() in text.casefold()]
    shown_lines = matching if q or probes else [text for text in matching if not is_probe(text)]
    problem = f"The log cannot be read: {'; '.join(problems)}" if problems else ""
    return show_application(
        pages,
        request,
        view,
        "object_logs",
        **_frame(subject, "logs"),
        pods=[ref_of(item).name for item in pods],
        pod=ALL_PODS if is_all else ref_of(chosen).name if chosen is not None else "",
        all_pods=ALL_PODS,
        containers=names,
        container=asked.container,
        previous=asked.is_previous,
        # a log that cannot be read is not loaded again automatically
        follow=follow and not problem,
        lines=lines,
        q=q,
        matching=len(matching),
        read=len(text_lines),
        probes=probes,
        hidden=len(matching) - len(shown_lines),
        text="\n".join(shown_lines),
        problem=problem,
    )


def is_probe(line: str) -> bool:
    """Return whether a line of an access log records a probe that succeeded."""
    # A search for both in one expression takes quadratic time in a line of half a megabyte, which a Pod can write.
    answered = _ANSWERED.search(line, 0, max(line.rfind("kube-probe/"), 0))
    return answered is not None or _PROBED.search(line) is not None


def _parts_of(dependents: Sequence[Manifest], owned: Owned) -> list[tuple[ObjectRef, str]]:
    """Return what an object owns with its health, besides Pods; ReplicaSets without Pods are its past revisions."""
    parts = (
        part
        for part in dependents
        if part.get("kind") != "Pod" and (part.get("kind") != "ReplicaSet" or at(part, "spec", "replicas", default=1))
    )
    return [(ref_of(part), health_with_parts(part, owned).value) for part in islice(parts, _PARTS)]


def _frame(subject: FoundObject, shown: str) -> dict[str, Any]:
    return {"ref": subject.ref, "shown": shown, "has_logs": subject.ref.kind in LOGGED and subject.live is not None}


def _live_text(live: Manifest) -> str:
    # hidden as by kubectl since 1.21: long, and for machines
    return manifest_text({**live, "metadata": {k: v for k, v in metadata_of(live).items() if k != "managedFields"}})
