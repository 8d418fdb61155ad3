"""Recorder: write Events as Kubernetes components do, count repetitions, and let them expire."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import ControllerClient, Timers

# kube-apiserver: --event-ttl, one hour.
_LIFETIME = 3600.0


@dataclass(frozen=True, slots=True)
class _Series:
    namespace: str
    name: str
    count: int


class SeriesRecorder:
    """
    Record what happened to an object as a core/v1 Event.

    The same event again raises the count of the first. An event goes an hour after it was last seen.
    """

    def __init__(self, api: ControllerClient, timers: Timers) -> None:
        self._api = api
        self._timers = timers
        self._series: OrderedDict[str, tuple[float, _Series]] = OrderedDict()
        self._sweeping = False
        self._moment = 0  # nanoseconds; names in order of time list events in the order they happened

    def normal(self, obj: Manifest, reason: str, message: str, source: EventSource) -> None:
        """Record an event of type Normal."""
        self._record(obj, "Normal", reason, message, source)

    def warning(self, obj: Manifest, reason: str, message: str, source: EventSource) -> None:
        """Record an event of type Warning."""
        self._record(obj, "Warning", reason, message, source)

    def resume(self, event: Manifest) -> None:
        """Register an event that was stored before a restart, so that it expires."""
        meta = event["metadata"]
        series = _Series(meta["namespace"], meta["name"], event.get("count") or 1)
        self._store_series(f"{series.namespace}/{series.name}", series)

    def _record(self, obj: Manifest, kind: str, reason: str, message: str, source: EventSource) -> None:
        involved = _involved(obj, source.field_path)
        digest = hashlib.sha256(
            "\0".join(
                (involved["uid"], involved.get("fieldPath", ""), kind, reason, message, source.component)
            ).encode()
        ).hexdigest()[:16]
        # client-go aggregates by the same members (EventAggregatorByReasonFunc and the cache of the event logger).
        known = self._series.get(digest)
        try:
            if known is None or not self._repeat(digest, known[1]):
                self._create(digest, involved, {"type": kind, "reason": reason, "message": message}, source)
        except ApiError:
            return  # a namespace that is being deleted takes no events

    def _repeat(self, digest: str, series: _Series) -> bool:
        if self._api.get("", "Event", series.namespace, series.name) is None:
            # Deleted by a client; the series begins again.
            return False
        count = series.count + 1
        patch = {"count": count, "lastTimestamp": self._now()}
        self._api.patch(ObjectRef("", "Event", series.namespace, series.name), patch, manager="kube-controller-manager")
        self._store_series(digest, _Series(series.namespace, series.name, count))
        return True

    def _create(self, digest: str, involved: Manifest, text: Manifest, source: EventSource) -> None:
        now = self._now()
        namespace = involved.get("namespace") or "default"
        # Real names end in the nanosecond, too. Two events of one moment need two names.
        self._moment = max(int(self._timers.now() * 1e9), self._moment + 1)
        name = f"{involved['name']}.{self._moment:x}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            **text,
            "source": {"component": source.component} | ({"host": source.host} if source.host else {}),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            # Old recorders leave it null; events.k8s.io fills it.
            "eventTime": None,
            "reportingComponent": source.component,
            "reportingInstance": source.host,
        }
        self._api.create(event, manager="kubelet" if source.host else "kube-controller-manager")
        self._store_series(digest, _Series(namespace, name, 1))

    def _now(self) -> str:
        return timestamp(self._timers.now())

    def _store_series(self, digest: str, series: _Series) -> None:
        self._series[digest] = (self._timers.now() + _LIFETIME, series)
        self._series.move_to_end(digest)
        # One timer for all: events are ordered by the time they expire, since their lifetime is the same.
        if not self._sweeping:
            self._sweeping = True
            self._timers.call_later(_LIFETIME, self._sweep)

    def _sweep(self) -> None:
        """Delete the events that expired, and schedule the next sweep."""
        now = self._timers.now()
        while self._series:
            digest, (due, series) = next(iter(self._series.items()))
            if due > now:
                self._timers.call_later(due - now, self._sweep)
                return
            del self._series[digest]
            self._api.delete(ObjectRef("", "Event", series.namespace, series.name))
        self._sweeping = False


@dataclass(frozen=True, slots=True)
class EventSource:
    """Who records an event: the component, the node it runs on, and the part of the object that is meant."""

    component: str
    host: str = ""
    field_path: str = ""


def _involved(obj: Manifest, field_path: str) -> Manifest:
    meta = obj["metadata"]
    reference = {
        "kind": obj["kind"],
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": obj["apiVersion"],
        "resourceVersion": meta.get("resourceVersion", ""),
        "fieldPath": field_path,
    }
    return {key: value for key, value in reference.items() if value}
