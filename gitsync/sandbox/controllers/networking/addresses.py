"""Addresses: one IP address per running pod."""

from __future__ import annotations

from ipaddress import IPv4Address

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox.controllers.pods import is_finished

_FIRST = int(IPv4Address("10.244.0.2"))
_COUNT = 2**16 - 3


class Addresses:
    """Give each pod an address of 10.244.0.0/16 that no other pod has; addresses of finished pods return."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._next = 0

    def observe(self, event: str, pod: Manifest) -> None:
        """Follow one pod: take note of its address, or free it."""
        address = at(pod, "status", "podIP")
        if not address or pod["spec"].get("hostNetwork"):
            return
        if event == "DELETED" or is_finished(pod):
            if self._owner.get(address) == uid_of(pod):
                del self._owner[address]
        else:
            self._owner[address] = uid_of(pod)

    def allocate(self, uid: str) -> str:
        """Return a free address, the one freed longest ago last."""
        for _ in range(_COUNT):
            address = str(IPv4Address(_FIRST + self._next))
            self._next = (self._next + 1) % _COUNT
            if address not in self._owner:
                self._owner[address] = uid
                return address
        raise RuntimeError("more pods than addresses")
