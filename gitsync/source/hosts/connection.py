"""One connection to the API of a host: the token goes to no other host, answers and times are bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.message import Message
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from gitsync import __version__
from gitsync.errors import InvalidInput, SourceDenied, SourceThrottled, SourceUnavailable, one_line
from gitsync.ports import CREDENTIALS_SECRET

_TIMEOUT = 15.0
"""Seconds that one request may take as a whole."""
_MAX_BYTES = 16 << 20
"""Bytes of an answer: 100 pull requests with descriptions of 65,536 characters are about 8 MiB."""
_CHUNK = 1 << 16
_LONGEST_DELAY = 3600.0
"""Seconds: GitHub's limits are for an hour, and a header from elsewhere may hold any number."""
_DEFAULT_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class HostResponse:
    """The parsed body of an answer, None where it has not changed, and its entity tag."""

    body: Any
    etag: str = ""


class NotFoundAtHost(InvalidInput):
    """The host has nothing at a path, or does not show it for the token."""


class ApiConnection:
    """
    Requests to one API by its URL, with the proxies of the environment.

    ``authorization`` returns the header for each request, since tokens of an App end; ``trusted`` yields the path of
    the trusted certificates, empty for those of the system.
    """

    def __init__(
        self,
        api: str,
        authorization: Callable[[], str],
        trusted: Callable[[], contextlib.AbstractContextManager[str]],
        headers: Mapping[str, str],
    ) -> None:
        self._api = api
        self._authorization = authorization
        self._trusted = trusted
        self._headers = headers

    def get(self, path: str, etag: str = "", **query: str | int) -> HostResponse:
        """Return what a path has; its body is None where it still has the entity tag."""
        conditions = {"If-None-Match": etag} if etag else {}
        return self._send("GET", f"{path}?{urlencode(query)}" if query else path, None, conditions)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send a body as JSON and return the parsed answer."""
        return self._send(method, path, json.dumps(body).encode(), {"Content-Type": "application/json"}).body

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HostResponse:
        all_headers = {**self._headers, **headers, "User-Agent": f"gitsync/{__version__}"}
        if authorization := self._authorization():
            all_headers["Authorization"] = authorization
        request = urllib.request.Request(self._api + path, body, all_headers, method=method)
        try:
            with self._opener().open(request, timeout=_TIMEOUT) as response:
                content = _bounded(response, time.monotonic() + _TIMEOUT)
        except (OSError, http.client.HTTPException) as error:
            raise SourceUnavailable("the API of the Git host cannot be reached", location=self._host) from error
        if response.status == 304:
            return HostResponse(None, response.headers.get("ETag", ""))
        if response.status >= 300:
            raise self._failure(response.status, response.headers, content, path)
        try:
            return HostResponse(orjson.loads(content) if content else None, response.headers.get("ETag", ""))
        except ValueError as error:
            raise SourceUnavailable("the API of the Git host did not answer with JSON", location=self._host) from error

    def _opener(self) -> urllib.request.OpenerDirector:
        # Without a handler of redirects: a redirect is an answer, and the token stays at this host.
        opener = urllib.request.OpenerDirector()
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler()]
        if self._api.startswith("https:"):
            # the certificates are read here, so that the file in memory is needed no longer
            with self._trusted() as ca_file:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file or None)))
        else:
            handlers.append(urllib.request.HTTPHandler())
        for handler in handlers:
            opener.add_handler(handler)
        return opener

    @property
    def _host(self) -> str:
        return urlsplit(self._api).netloc

    def _failure(self, status: int, headers: Message, content: bytes, path: str) -> Exception:
        """Return the error for an answer, with the host's own words."""
        what = f"the Git host answers {status} for {path.partition('?')[0]}: {_message(content)}"
        delay = delay_of(status, headers, time.time())
        if delay is not None:
            return SourceThrottled(what, location=self._host, retry_after=delay)
        if status in (401, 403):
            hint = f"give the token in {CREDENTIALS_SECRET} the right to read pull requests and to write statuses"
            return SourceDenied(what, location=self._host, hint=hint)
        if 300 <= status < 400:
            hint = "set spec.source.repoURL to where it has moved; the token is sent to no other place"
            return InvalidInput(what, location=self._host, hint=hint)
        if status == 404:
            return NotFoundAtHost(what, location=self._host)
        if status < 500:
            return InvalidInput(what, location=self._host)
        return SourceUnavailable(what, location=self._host)


class ConditionalPages:
    """The pages of a list that is polled; where it did not change since, its first page is empty."""

    def __init__(self) -> None:
        self._etag = ""
        self._requested_since: datetime | None = None

    def read(self, number: int, since: datetime | None, request: Callable[[str], HostResponse]) -> list[Any]:
        """Return a page by a request that is given the ETag of the last answer, empty for one without a condition."""
        # only the first page is conditional: where it is the same, the others are not read
        is_same = number == 1 and since is not None and since == self._requested_since
        answer = request(self._etag if is_same else "")
        if number == 1:
            self._etag = answer.etag
            self._requested_since = since
        if answer.body is None:
            return []
        if not isinstance(answer.body, list):
            raise SourceUnavailable("the API of the Git host did not answer with a list")
        return answer.body


class OwnComments:
    """Our comment on each pull request: created once and then updated, also after a user has deleted it."""

    def __init__(self, connection: ApiConnection, verb: str) -> None:
        self._connection = connection
        self._verb = verb
        self._ids: dict[int, int] = {}
        """By the numbers of the pull requests."""

    def write(self, number: int, text: str, find: Callable[[], int], list_path: str, comments_path: str) -> None:
        """
        Update the comment below ``comments_path``, or create it in the list.

        ``find`` returns the id of the comment that an earlier process wrote, 0 where there is none.
        """
        id = self._ids.get(number) or find()
        if id:
            try:
                self._connection.send(self._verb, f"{comments_path}/{id}", {"body": text})
            except NotFoundAtHost:  # a user has deleted it
                self._ids.pop(number, None)
            else:
                self._ids[number] = id
                return
        created = self._connection.send("POST", list_path, {"body": text})
        self._ids[number] = int(created["id"])


def _bounded(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Return a body; raise TimeoutError for one that arrives slowly, OSError for one that is too large."""
    parts: list[bytes] = []
    size = 0
    # read1: ``read`` would wait for all of a chunk, and the socket's timeout starts again with each byte
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _MAX_BYTES:
            raise OSError(f"an answer of more than {_MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def delay_of(status: int, headers: Message, now: float) -> float | None:
    """
    Return the seconds that a host asks to wait, None where the answer is not about its limits.

    GitHub answers 403 or 429 with ``retry-after``, or without any requests left until ``x-ratelimit-reset`` (seconds
    since 1970): https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    """
    after = headers.get("Retry-After", "")
    is_used_up = headers.get("X-RateLimit-Remaining", "") == "0"
    if status not in (403, 429, 503) or not (status == 429 or after or is_used_up):
        return None
    reset = headers.get("X-RateLimit-Reset", "")
    if after.isdecimal():
        seconds = float(after)
    elif is_used_up and reset.isdecimal():
        seconds = float(reset) - now
    else:
        seconds = _DEFAULT_DELAY
    return min(max(seconds, 1.0), _LONGEST_DELAY)


def _message(content: bytes) -> str:
    """Return the message of an error as one short line."""
    try:
        body = orjson.loads(content)
    except ValueError:
        return "no message"
    message = body.get("message") if isinstance(body, dict) else None
    return one_line(str(message or "no message"), 200)
