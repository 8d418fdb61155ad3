"""Requests to servers outside: no redirects, a deadline, and TLS verified."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gitsync.runtime.clock import Deadline


class RequestFailed(Exception):
    """No usable answer came; ``retryable`` is whether a retry may help."""

    def __init__(self, what: str, *, retryable: bool) -> None:
        super().__init__(what)
        self.retryable = retryable


def host_of(url: str) -> str:
    """Return host and port of a URL as ``host:port``; empty when it is not an http(s) URL, or names a user."""
    try:
        parts = urlsplit(url)
        # a user in a URL would be sent to the server and quoted in errors; ports that are not numbers raise here
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if is_usable else ""


def request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, *, timeout: float, max_bytes: int
) -> tuple[int, bytes]:
    """Return status and body of an answer, whatever the status; raise RequestFailed, whose text quotes neither side."""
    # http.client follows no redirects and reads no proxy variables: a request goes to this host only
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    deadline = Deadline(timeout)
    try:
        connection.connect()
        deadline.watch(connection.sock)
        # the path only: a full URL is the form for a proxy
        connection.request(method, parts._replace(scheme="", netloc="").geturl() or "/", body, dict(headers))
        with connection.getresponse() as response:  # closes the socket also where the server ends the connection
            answer = response.read(max_bytes + 1)  # one more, to tell an answer of exactly the limit from a longer one
        if deadline.is_done:  # what was read is a part only
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        # what was late once may be late again, and a worker thread waits for it
        is_late = deadline.is_done or isinstance(error, TimeoutError)
        what = f"did not answer within {timeout:g} s" if is_late else "cannot be reached"
        raise RequestFailed(what, retryable=not is_late) from error
    finally:
        deadline.cancel()
        connection.close()
    if len(answer) > max_bytes:
        raise RequestFailed("answered more than the limit", retryable=False)
    return response.status, answer


def open_url(request: urllib.request.Request, seconds: float) -> http.client.HTTPResponse:
    """Return the open answer to a request, without following redirects; raise OSError where it is an error."""
    # its proxy variables count, unlike those of `request`: they are how a Pod or a laptop reaches other hosts
    answer: http.client.HTTPResponse = urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds)
    return answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: urllib would send the headers along, and the key in them is for this host alone."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect is an error with its status."""
