"""Requests to servers outside: a deadline, TLS verified, and no redirects but for downloads, which leave keys out."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from gitsync import __version__
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


def joined(url: str, reference: str) -> str:
    """Return the URL that an answer from a URL refers to; empty when it is none, as brackets without an address."""
    try:
        target = urljoin(url, reference)
        urlsplit(target)
    except ValueError:
        return ""
    return target


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


def open_url(
    request: urllib.request.Request, seconds: float, context: ssl.SSLContext | None = None
) -> http.client.HTTPResponse:
    """Return the open answer to a request, without following redirects; raise OSError where it is an error."""
    handlers = [urllib.request.HTTPSHandler(context=context)] if context is not None else []
    # its proxy variables count, unlike those of `request`: they are how a Pod or a laptop reaches other hosts
    opener = urllib.request.build_opener(_NoRedirects, *handlers)
    answer: http.client.HTTPResponse = opener.open(request, timeout=seconds)
    return answer


_MOST_REDIRECTS: Final = 5
"""A registry leads to its storage by one, GitHub to a file of a release by two."""
_CHUNK: Final = 1 << 16
_SILENCE: Final = 15.0
"""Seconds without a byte after which a server counts as away."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """Status, headers and body of an answer, whatever the status; the body of an error is empty."""

    status: int
    headers: Message
    body: bytes


@dataclass(frozen=True, slots=True)
class Downloads:
    """
    Requests to servers whose content may be elsewhere: redirects are followed, and ``Authorization`` stays behind.

    ``authorities`` are the trusted certificates (PEM), empty for those of the system. ``is_plain`` returns whether a
    URL may be reached without TLS; ``seconds`` are for one request with its redirects.
    """

    authorities: str = ""
    is_plain: Callable[[str], bool] = lambda url: False
    seconds: float = 120.0

    def get(self, url: str, headers: Mapping[str, str], max_bytes: int) -> WebAnswer:
        """Return the answer to a GET; raise RequestFailed, whose text quotes no header."""
        return self.send("GET", url, headers, max_bytes)

    def send(
        self, method: str, url: str, headers: Mapping[str, str], max_bytes: int, body: bytes | None = None
    ) -> WebAnswer:
        """Return the answer to a request; one with a body is not redirected. Raise RequestFailed as ``get`` does."""
        ends = time.monotonic() + self.seconds
        for _ in range(_MOST_REDIRECTS + 1):
            # also the target of a redirect: urllib would open a file:// URL, and content without TLS may be anyone's
            if not host_of(url) or (urlsplit(url).scheme != "https" and not self.is_plain(url)):
                raise RequestFailed("is reached, or redirects, by something else than https", retryable=False)
            answer = self._once(urllib.request.Request(url, body, dict(headers), method=method), ends, max_bytes)
            location = answer.headers.get("Location", "") if answer.status in _REDIRECTS else ""
            if not location or body is not None:
                return answer
            target = joined(url, location)
            if urlsplit(target)[:2] != urlsplit(url)[:2]:
                headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            url = target
        raise RequestFailed(f"redirects more than {_MOST_REDIRECTS} times", retryable=False)

    def _once(self, request: urllib.request.Request, ends: float, max_bytes: int) -> WebAnswer:
        request.add_header("User-Agent", f"gitsync/{__version__}")
        try:
            # the certificates of the system take 20 ms to read
            context = ssl.create_default_context(cadata=self.authorities or None) if request.type == "https" else None
            with open_url(request, _SILENCE, context) as response:
                return WebAnswer(response.status, response.headers, _bounded(response, ends, max_bytes))
        except urllib.error.HTTPError as error:
            with error:
                return WebAnswer(error.code, error.headers, b"")
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                what = f"has a certificate that is not trusted: {reason.verify_message}"
            elif isinstance(reason, TimeoutError):
                what = "did not answer in time"
            else:
                what = "cannot be reached"
            raise RequestFailed(what, retryable=True) from error


def _bounded(response: http.client.HTTPResponse, ends: float, max_bytes: int) -> bytes:
    """Return a body; raise RequestFailed for one that is too large, TimeoutError for one that arrives slowly."""
    parts: list[bytes] = []
    size = 0
    # read1: ``read`` would wait for all of a chunk, and the time without a byte starts again with each of them
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise RequestFailed(f"sends more than the limit of {max_bytes >> 20} MiB", retryable=False)
        if time.monotonic() > ends:
            raise TimeoutError
    if response.length:  # http.client ends a body that breaks off without an error
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: urllib would send the headers along, and the key in them is for this host alone."""

    def http_error_302(self, *_: Any, **__: Any) -> None:
        """Return nothing, so that a redirect is an error with its status; urllib would raise for an odd target."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
