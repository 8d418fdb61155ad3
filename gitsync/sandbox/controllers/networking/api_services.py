"""
Availability of APIServices: the checks of kube-aggregator, in its order and words.

A pod that is simulated passes the last check, its discovery; the address of a process and an ExternalName on loopback
are connected to. Requests for the group are not forwarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.sandbox.controllers.base import Controller
from gitsync.sandbox.controllers.networking.discovery_check import discovery_error, is_loopback
from gitsync.sandbox.controllers.object_meta import Key, key_of

_GROUP = "apiregistration.k8s.io"
_MANAGER = "kube-apiserver"
_SERVICE_NAME = "kubernetes.io/service-name"
_RESYNC = 30.0
"""Seconds between two checks of one that is available."""
_RETRY = 1.0
"""Seconds between two checks of one that is not."""

Verdict: TypeAlias = tuple[str, str]
"""Reason and message of the condition ``Available``."""
_LOCAL: Verdict = ("Local", "Local APIServices are always available")
_PASSED: Verdict = ("Passed", "all checks passed")


class ApiServices(Controller):
    """Write the condition ``Available`` of each APIService."""

    name = "apiservice-availability"
    watches = frozenset({(_GROUP, "APIService"), ("", "Service"), ("discovery.k8s.io", "EndpointSlice")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark an APIService whose spec changed, or those behind a Service."""
        if obj["kind"] == "APIService":
            if old is None or old["spec"] != obj["spec"]:
                self.enqueue(key_of(obj))
            return
        meta = obj["metadata"]
        name = meta["name"] if obj["kind"] == "Service" else labels_of(obj).get(_SERVICE_NAME)
        for each in self.api.list(_GROUP, "APIService"):
            wanted = at(each, "spec", "service") or {}
            if (wanted.get("namespace"), wanted.get("name")) == (meta["namespace"], name):
                self.enqueue(key_of(each))

    def reconcile(self, key: Key) -> None:
        """Check one APIService, and again later where it depends on a server."""
        live = self.api.get(_GROUP, "APIService", *key)
        if live is None:
            return
        verdict = self._check(live["spec"]) if live["spec"].get("service") else _LOCAL
        known = at(live, "status", "conditions") or ()
        self.write_status(live, {"conditions": _conditions(known, verdict, self.context.now())}, _MANAGER)
        if verdict != _LOCAL:
            self.enqueue_after(key, _RESYNC if verdict == _PASSED else _RETRY)

    def _check(self, spec: Manifest) -> Verdict:
        wanted = spec["service"]
        service = self.api.get("", "Service", wanted["namespace"], wanted["name"])
        if service is None:
            return "ServiceNotFound", f"{_named(wanted)} is not present"
        if service["spec"]["type"] == "ExternalName":
            return _discover(spec, service["spec"]["externalName"], wanted["port"])
        for port in service["spec"].get("ports") or ():
            if port["port"] == wanted["port"]:
                return self._check_endpoints(spec, port.get("name", ""))
        return "ServicePortError", f"{_named(wanted)} is not listening on port {wanted['port']}"

    def _check_endpoints(self, spec: Manifest, port_name: str) -> Verdict:
        wanted = spec["service"]
        labels = {_SERVICE_NAME: wanted["name"]}
        slices = list(self.api.list("discovery.k8s.io", "EndpointSlice", wanted["namespace"], labels))
        if not slices:
            return "EndpointsNotFound", f"cannot find endpointslices for {_named(wanted)}"
        ready = next(_ready(slices, port_name), None)
        if ready is None:
            text = f'endpointslices for {_named(wanted)} have no addresses with port name "{port_name}"'
            return "MissingEndpoints", text
        return _discover(spec, *ready) if is_loopback(ready[0]) else _PASSED


def _ready(slices: Iterable[Manifest], port_name: str) -> Iterator[tuple[str, int]]:
    """Yield the address and port of each ready endpoint behind a named port."""
    for part in slices:
        numbers = [each["port"] for each in part.get("ports") or () if each.get("name", "") == port_name]
        for endpoint in part.get("endpoints") or ():
            if numbers and at(endpoint, "conditions", "ready") is not False:
                yield endpoint["addresses"][0], numbers[0]


def _discover(spec: Manifest, host: str, port: int) -> Verdict:
    error = discovery_error(spec, host, port)
    return ("FailedDiscoveryCheck", error) if error else _PASSED


def _named(wanted: Manifest) -> str:
    return f'service/{wanted["name"]} in "{wanted["namespace"]}"'


def _conditions(known: Iterable[Manifest], verdict: Verdict, now: str) -> list[Manifest]:
    """Return the conditions with a new ``Available``; its time changes with its status only."""
    reason, message = verdict
    status = "True" if verdict in (_LOCAL, _PASSED) else "False"
    others = [each for each in known if each["type"] != "Available"]
    since = [each["lastTransitionTime"] for each in known if (each["type"], each["status"]) == ("Available", status)]
    available = {"type": "Available", "status": status, "reason": reason, "message": message}
    return [*others, {**available, "lastTransitionTime": since[0] if since else now}]
