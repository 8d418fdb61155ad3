"""Allocation and randomness for the write pipeline."""

from __future__ import annotations

import ipaddress
import random
import uuid
from collections.abc import Callable
from typing import TypeAlias

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.errors import ApiError, StatusCause, invalid
from gitsync.sandbox.storage import ObjectStore, StoreEvent

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
SERVICES = "/services"
GetObject: TypeAlias = Callable[[str, str, str, str], Manifest | None]
# apimachinery/pkg/util/rand: no vowels and no 0, 1, 3, so that names contain no words.
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


class Allocators:
    """
    Which Service addresses and node ports are in use, followed from the store's events.

    Choosing reserves nothing: the commit that follows on the same thread does, so a refused or dry-run write
    leaves nothing behind.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._ips: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        for stored in store.collection(SERVICES).select():
            self._take(stored.obj)
        store.observe(self._follow)

    def holder_of_ip(self, ip: str) -> str:
        """Return the uid of the Service that has the address, or an empty text."""
        return self._ips.get(ip, "")

    def holder_of_port(self, port: int) -> str:
        """Return the uid of the Service that has the port, or an empty text."""
        return self._ports.get(port, "")

    def _follow(self, resource: str, event: StoreEvent) -> None:
        if resource != SERVICES:
            return
        if event.old is not None:
            for ip in _ips(event.old.obj):
                self._ips.pop(ip, None)
            for port in _ports(event.old.obj):
                self._ports.pop(port, None)
        if event.new is not None:
            self._take(event.new.obj)

    def _take(self, service: Manifest) -> None:
        uid = str(at(service, "metadata", "uid", default=""))
        self._ips.update(dict.fromkeys(_ips(service), uid))
        self._ports.update(dict.fromkeys(_ports(service), uid))


def _ips(service: Manifest) -> list[str]:
    return [ip for ip in at(service, "spec", "clusterIPs") or [] if ip != "None"]


def _ports(service: Manifest) -> list[int]:
    ports = [port["nodePort"] for port in at(service, "spec", "ports") or [] if port.get("nodePort")]
    health = at(service, "spec", "healthCheckNodePort")
    return [*ports, health] if health else ports


class RequestEnvironment:
    """The WriteContext of one write: what it chose is not chosen twice."""

    def __init__(self, clock: SandboxClock, allocations: Allocators, rng: random.Random, get: GetObject) -> None:
        self._clock = clock
        self._allocations = allocations
        self._rng = rng
        self._chosen: set[object] = set()
        self.get = get

    def now(self) -> str:
        """Return the time as RFC 3339 with seconds and ``Z``."""
        return self._clock.timestamp()

    def allocate_ip(self, wanted: str = "") -> str:
        """Return a free Service address, or the wanted one; raise ApiError when it is taken or out of range."""
        if wanted:
            try:
                inside = ipaddress.ip_address(wanted) in SERVICE_NETWORK
            except ValueError:
                inside = False
            if not inside:
                why = f"the provided IP ({wanted}) is not in the valid range"
                full = f"The range of valid IPs is {SERVICE_NETWORK}"
                raise _refused("spec.clusterIPs", f'["{wanted}"]', f"failed to allocate IP {wanted}: {why}. {full}")
            if self._allocations.holder_of_ip(wanted):
                raise _refused(
                    "spec.clusterIPs",
                    f'["{wanted}"]',
                    f"failed to allocate IP {wanted}: provided IP is already allocated",
                )
            return wanted
        first = int(SERVICE_NETWORK.network_address)
        while True:
            # Above the first 256, which are for addresses that are asked for (KEP-3070).
            ip = str(ipaddress.ip_address(first + self._rng.randrange(256, SERVICE_NETWORK.num_addresses - 1)))
            if not self._allocations.holder_of_ip(ip) and ip not in self._chosen:
                self._chosen.add(ip)
                return ip

    def allocate_port(self, wanted: int = 0) -> int:
        """Return a free node port (30000-32767), or the wanted one; raise ApiError when it is taken."""
        field = "spec.ports[0].nodePort"
        if wanted:
            if wanted not in NODE_PORTS:
                raise _refused(
                    field,
                    str(wanted),
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                )
            if self._allocations.holder_of_port(wanted) or wanted in self._chosen:
                raise _refused(field, str(wanted), "provided port is already allocated")
            self._chosen.add(wanted)
            return wanted
        while True:
            port = self._rng.choice(NODE_PORTS)
            if not self._allocations.holder_of_port(port) and port not in self._chosen:
                self._chosen.add(port)
                return port

    def random_suffix(self, length: int = 5) -> str:
        """Return random characters as Kubernetes uses them in generated names."""
        return "".join(self._rng.choices(_SUFFIX, k=length))

    def new_uid(self) -> str:
        """Return a fresh uid."""
        return str(uuid.uuid4())


def _refused(field: str, value: str, why: str) -> ApiError:
    return invalid("Service", "", "", [StatusCause("FieldValueInvalid", f"Invalid value: {value}: {why}", field)])
