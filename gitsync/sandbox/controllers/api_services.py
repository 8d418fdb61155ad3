"""Availability of APIServices: the checks of kube-aggregator, in its order and words."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.sandbox.connections import client_context, go_text
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.object_meta import Key, key_of

_TIMEOUT = 1.0
"""Seconds for an answer on loopback; the sandbox waits meanwhile."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine; a sandbox connects to nothing else."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def discovery_error(spec: Manifest, host: str, port: int) -> str:
    """Request the discovery of an APIService's group version; return why that failed, empty where it did not."""
    path = f"/apis/{spec['group']}/{spec['version']}"
    url = f"https://{host}:{port}{path}"
    # An external host is answered as one that DNS does not know.
    if not is_loopback(host):
        return f'failing or missing response from {url}: Get "{url}": dial tcp: lookup {host}: no such host'
    address = "127.0.0.1" if host == "localhost" else host
    try:
        status = _get(spec, (address, port), path)
    # OSError includes ssl.SSLError and timeouts.
    except (OSError, http.client.HTTPException) as error:
        return f'failing or missing response from {url}: Get "{url}": {go_text(error, address, port)}'
    return "" if 200 <= status < 300 else f"failing or missing response from {url}: bad status from {url}: {status}"


def _get(spec: Manifest, address: tuple[str, int], path: str) -> int:
    """Send a GET request and return its status; the certificate is checked for the DNS name of the Service."""
    service = spec["service"]
    context = client_context(spec.get("caBundle") or "")
    if spec.get("insecureSkipTLSVerify"):
        # First, or the ssl module refuses CERT_NONE.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(address, _TIMEOUT) as plain:
        name = f"{service['name']}.{service['namespace']}.svc"
        with context.wrap_socket(plain, server_hostname=name) as secured:
            connection = http.client.HTTPConnection(*address)
            # http.client would connect by itself to the address, and check the certificate for that.
            connection.sock = secured
            connection.request("GET", path, headers={"Connection": "close"})
            # closed with the answer: its body is not read, and it shares the socket
            with connection.getresponse() as answer:
                return answer.status


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


class ApiServices(SandboxController):
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
        for api_service in self.api.list(_GROUP, "APIService"):
            wanted = at(api_service, "spec", "service") or {}
            if (wanted.get("namespace"), wanted.get("name")) == (meta["namespace"], name):
                self.enqueue(key_of(api_service))

    def reconcile(self, key: Key) -> None:
        """Check one APIService, and again later where it depends on a server."""
        live = self.api.get(_GROUP, "APIService", *key)
        if live is None:
            return
        verdict = self._check(live["spec"]) if live["spec"].get("service") else _LOCAL
        known = at(live, "status", "conditions") or ()
        self.write_status(live, {"conditions": _conditions(known, verdict, self.context.now())}, _MANAGER)
        # The server behind may fail without any event of the API.
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
        # Simulated pods have addresses that nothing listens on.
        return _discover(spec, *ready) if is_loopback(ready[0]) else _PASSED


def _ready(slices: Iterable[Manifest], port_name: str) -> Iterator[tuple[str, int]]:
    """Yield the address and port of each ready endpoint behind a named port."""
    for part in slices:
        numbers = [port["port"] for port in part.get("ports") or () if port.get("name", "") == port_name]
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
    others = [condition for condition in known if condition["type"] != "Available"]
    since = [
        condition["lastTransitionTime"]
        for condition in known
        if (condition["type"], condition["status"]) == ("Available", status)
    ]
    available = {"type": "Available", "status": status, "reason": reason, "message": message}
    return [*others, {**available, "lastTransitionTime": since[0] if since else now}]
