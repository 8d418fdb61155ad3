"""ApiObjectDetails: the ObjectDetails port by requests to the API server."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.errors import Rejected, one_line
from gitsync.objects.keys import API_VERSION
from gitsync.objects.ref import ObjectRef
from gitsync.ports import KubernetesEvent

_EVENTS = 100
_LOG_BYTES = 512 * 1024
# characters of a message, the limit of the API server
_MESSAGE = 1024


class ApiObjectDetails:
    """Read Events and logs, write Events; see the ports ``ObjectDetails`` and ``EventWriter``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def events(self, ref: ObjectRef) -> tuple[KubernetesEvent, ...]:
        """Return the latest Events about an object, newest first."""
        namespace = ref.namespace or "default"  # where the API server keeps Events about cluster-scoped objects
        fields = f"involvedObject.kind={ref.kind},involvedObject.name={ref.name}"
        query = {"fieldSelector": fields, "limit": str(_EVENTS)}
        items = self._client.get(f"/api/v1/namespaces/{segment(namespace)}/events", query).get("items") or ()
        return tuple(sorted(map(_event, items), key=lambda event: event.last, reverse=True))

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 200) -> str:
        """Return the last lines of the log of a container."""
        query = {"tailLines": str(lines), "limitBytes": str(_LOG_BYTES)}
        query |= {"container": container} if container else {}
        query |= {"previous": "true"} if previous else {}
        return self._client.text(f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(pod)}/log", query)

    def write_event(self, application: str, type: str, reason: str, message: str, ref: ObjectRef | None = None) -> None:
        """Write one Event about an Application or an object of it; an equal one within the hour counts up."""
        namespace, _, name = application.partition("/")
        about = {"apiVersion": API_VERSION, "kind": "Application", "namespace": namespace, "name": name}
        if ref is not None:
            # Events of objects without a namespace belong into the namespace default (core/v1 Event)
            namespace = ref.namespace or "default"
            name = ref.name
            about = {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = one_line(message, _MESSAGE)
        # the name is derived from the content, so that the same Event is found again and counted up
        mark = hashlib.sha256(f"{application} {ref} {reason} {text}".encode()).hexdigest()[:16]
        path = f"/api/v1/namespaces/{segment(namespace)}/events"
        try:
            known = self._client.get(f"{path}/{segment(f'{name}.{mark}')}")
        except Rejected as error:
            if error.code != 404:
                raise
            known = {}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{mark}", "namespace": namespace},
            "involvedObject": about,
            "type": type,
            "reason": reason,
            "message": text,
            "source": {"component": "gitsync"},
            "count": int(known.get("count") or 0) + 1,
            "firstTimestamp": known.get("firstTimestamp") or now,
            "lastTimestamp": now,
        }
        self._client.apply(f"{path}/{segment(f'{name}.{mark}')}", body, {"fieldManager": "gitsync", "force": "true"})


def _event(item: dict[str, Any]) -> KubernetesEvent:
    # events.k8s.io/v1 counts in series and reports eventTime; core/v1 writers such as the kubelet use the older members
    series = item.get("series") or {}
    source = item.get("reportingComponent") or (item.get("source") or {}).get("component") or ""
    times = (
        series.get("lastObservedTime"),
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item.get("firstTimestamp"),
    )
    return KubernetesEvent(
        type=str(item.get("type") or ""),
        reason=str(item.get("reason") or ""),
        message=str(item.get("message") or ""),
        count=int(series.get("count") or item.get("count") or 1),
        last=str(next(filter(None, times), "")),
        source=str(source),
    )
