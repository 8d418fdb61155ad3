"""ApiObjectDetails: the ObjectDetails port by requests to the API server."""

from __future__ import annotations

from typing import Any

from gitsync.cluster.client import Client, segment
from gitsync.objects.ref import ObjectRef
from gitsync.ports import KubernetesEvent

_EVENTS = 100
_LOG_BYTES = 512 * 1024


class ApiObjectDetails:
    """Read Events and logs; see the port ``ObjectDetails``."""

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


def _event(item: dict[str, Any]) -> KubernetesEvent:
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
