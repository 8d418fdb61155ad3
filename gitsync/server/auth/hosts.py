"""The hosts that the dashboard answers for: a name that another site resolves to this address is not one of them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from gitsync.errors import InvalidInput


class KnownHosts:
    """
    Check the ``Host`` of requests, against DNS rebinding.

    Addresses and loopback names always pass, since no foreign page has them as its origin by a DNS name. With a public
    URL its host passes too, and no other name. Without one, other names pass only where users have to sign in: a
    foreign page has no session.
    """

    def __init__(self, public_url: str = "") -> None:
        self._public = urlsplit(public_url).hostname or ""
        if public_url and not self._public:
            raise InvalidInput(
                f"{public_url!r} is not a valid URL",
                location="GITSYNC_WEB_URL",
                hint="write https://gitsync.example.com",
            )

    def refusal(self, host: str, *, needs_sign_in: bool) -> str:
        """Return why a request for this host is refused, empty when it is answered."""
        name = _name(host)
        if _is_address(name) or name == "localhost" or name.endswith(".localhost") or name == self._public != "":
            return ""
        if needs_sign_in and not self._public:
            return ""
        return "unknown host: open the dashboard by its address, or set GITSYNC_WEB_URL to its public URL"


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
