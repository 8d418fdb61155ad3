"""One object: its differences, conditions, relations and manifests; its Kubernetes Events; the logs of its Pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.errors import GitsyncError
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.display import declared_content
from gitsync.ports import ApplicationView, KubernetesEvent, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.dependencies import BackendOf, PagesOf, ViewOf
from gitsync.server.pages.differences import object_differences
from gitsync.server.pages.layout import show_application
from gitsync.server.rows.contents import manifest_text
from gitsync.server.rows.relations.references import references, selected_by, users_of

router = APIRouter(prefix="/apps/{namespace}/{name}/object")

LOGGED = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
"""Kinds with Pods, of which there are logs."""
_PARTS, _LINES, _MOST_LINES, _DEPTH = 100, 200, 2000, 3


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


def find_object(backend: BackendOf, view: ViewOf, ref: Annotated[str, Query(max_length=1200)]) -> FoundObject:
    """Return the object of a request; answer 404 where there is none."""
    try:
        wanted = ObjectRef.from_path(ref)
    except ValueError:
        raise HTTPException(404, "This is not a valid object reference.") from None
    item = next((item for item in view.resources if item.ref == wanted), None)
    found = FoundObject(view, wanted, item, backend.view.live(view.key, wanted))
    if not found.manifest:
        raise HTTPException(404, f"{visible(wanted)} is not in the cluster, or not part of this application.")
    return found


FoundOf = Annotated[FoundObject, Depends(find_object)]


@router.get("", response_class=HTMLResponse)
def summary(request: Request, pages: PagesOf, view: ViewOf, found: FoundOf) -> HTMLResponse:
    """Show the differences of an object, its conditions, its relations and both manifests."""
    item, live, desired = found.item, found.live, found.desired
    return show_application(
        pages,
        request,
        view,
        "object",
        **_frame(found, "summary"),
        item=object_differences(pages.engine, view, [item])[0] if item is not None else None,
        live=_live_text(live) if live is not None else "",
        desired=manifest_text(declared_content(desired)) if desired is not None else "",
        conditions=[item for item in at(live, "status", "conditions", default=[]) or [] if isinstance(item, dict)],
        owners=[item for item in metadata_of(live or {}).get("ownerReferences") or [] if isinstance(item, dict)],
        parts_of=[(ref_of(part), part) for part in pages.engine.view.dependents(view.key, found.ref)[:_PARTS]],
        **related(found),
        known={item.ref for item in view.resources},
    )


@router.get("/events", response_class=HTMLResponse)
def events(request: Request, pages: PagesOf, view: ViewOf, found: FoundOf) -> HTMLResponse:
    """Show the Kubernetes Events about an object, read from the API server now."""
    problem, read = "", tuple[KubernetesEvent, ...]()
    try:
        read = pages.engine.details.events(found.ref)
    except GitsyncError as error:
        problem = f"The Events cannot be read: {error}"
    return show_application(
        pages, request, view, "object_events", **_frame(found, "events"), events=read, problem=problem
    )


@router.get("/logs", response_class=HTMLResponse)
def logs(
    request: Request,
    pages: PagesOf,
    view: ViewOf,
    found: FoundOf,
    pod: Annotated[str, Query(max_length=253)] = "",
    container: Annotated[str, Query(max_length=63)] = "",
    previous: bool = False,
    follow: bool = False,
    lines: Annotated[int, Query(ge=1, le=_MOST_LINES)] = _LINES,
) -> HTMLResponse:
    """Show the last lines of the log of a container, read from the API server now."""
    pods = pods_of(pages.engine, found)
    chosen = next((item for item in pods if ref_of(item).name == pod), pods[0] if pods else None)
    names = _containers(chosen) if chosen is not None else []
    name = container if container in names else names[0] if names else ""
    text, problem = "", ""
    try:
        if chosen is not None:
            ref = ref_of(chosen)
            text = pages.engine.details.logs(ref.namespace, ref.name, name, previous=previous, lines=lines)
    except GitsyncError as error:
        problem = f"The log cannot be read: {error}"
    return show_application(
        pages,
        request,
        view,
        "object_logs",
        **_frame(found, "logs"),
        pods=[ref_of(item).name for item in pods],
        pod=ref_of(chosen).name if chosen is not None else "",
        containers=names,
        container=name,
        previous=previous,
        follow=follow and not problem,
        lines=lines,
        text=visible(text),
        problem=problem,
    )


def related(found: FoundObject) -> dict[str, Any]:
    """Return what an object uses, what it selects and what uses it."""
    others = found.app.resources
    return {
        "uses": references(found.ref, found.manifest),
        "selects": selected_by(found.ref, found.manifest, others),
        "used": users_of(others).get(found.ref, []),
    }


def pods_of(backend: Backend, found: FoundObject) -> list[Manifest]:
    """Return the Pod itself, or the Pods that an object owns, by name."""
    if found.live is None:
        return []
    found_pods = [item for item in _below(backend, found.live, _DEPTH) if item.get("kind") == "Pod"]
    return sorted(found_pods, key=lambda item: ref_of(item).name)


def _below(backend: Backend, manifest: Manifest, depth: int) -> list[Manifest]:
    uid = uid_of(manifest)
    parts = backend.view.owned_by(uid) if uid and depth else ()
    return [manifest, *(item for part in parts for item in _below(backend, part, depth - 1))]


def _containers(pod: Manifest) -> list[str]:
    spec = pod.get("spec") or {}
    return [str(item.get("name")) for item in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]


def _frame(found: FoundObject, shown: str) -> dict[str, Any]:
    return {"ref": found.ref, "shown": shown, "has_logs": found.ref.kind in LOGGED and found.live is not None}


def _live_text(live: Manifest) -> str:
    return manifest_text({**live, "metadata": {k: v for k, v in metadata_of(live).items() if k != "managedFields"}})
