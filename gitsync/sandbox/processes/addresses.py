"""Addresses of Pods that run: one of 127.0.0.0/8 each, so that all can listen on the same port."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterable
from ipaddress import IPv4Address

_FIRST = int(IPv4Address("127.1.0.1"))
_LAST = int(IPv4Address("127.254.255.254"))


def has_loopback_network() -> bool:
    """Return whether every address of 127.0.0.0/8 belongs to this machine, as on Linux."""
    return sys.platform == "linux"


class LoopbackAddresses:
    """Give Pods addresses on which their ports are free; other sandboxes of the machine take other ones."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        self._next = random.randint(_FIRST, _LAST)

    def of(self, uid: str, ports: Iterable[int]) -> str:
        """Return the address of a Pod, always the same one until it is released."""
        known = next((address for address, owner in self._taken.items() if owner == uid), None)
        return known or self._allocate(uid, tuple(ports))

    def release(self, uid: str) -> None:
        """Free the address of a Pod."""
        self._taken = {address: owner for address, owner in self._taken.items() if owner != uid}

    def _allocate(self, uid: str, ports: tuple[int, ...]) -> str:
        while True:
            address = str(IPv4Address(self._next))
            self._next = self._next + 1 if self._next < _LAST else _FIRST
            if address not in self._taken and all(_is_free(address, port) for port in ports):
                self._taken[address] = uid
                return address


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            return True  # the Pod itself reports that it may not listen there
        except OSError:
            return False
    return True
