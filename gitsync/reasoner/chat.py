"""One request to a chat endpoint: no redirects, a hard deadline, a bounded answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from urllib.parse import urlsplit

import orjson

_MOST = 256 << 10
_ANSWER_TOKENS = 700


class ChatFailed(Exception):
    """No usable answer came; ``again`` says whether another try may help."""

    def __init__(self, what: str, *, again: bool) -> None:
        super().__init__(what)
        self.again = again


def host_of(endpoint: str) -> str:
    """Return host and port of an endpoint as the operator lists them, empty when it is no http(s) URL."""
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.hostname}{port}" if is_usable else ""


def complete(endpoint: str, model: str, key: str, system: str, user: str, seconds: float) -> bytes:
    """Return the body of a chat completion; raise ChatFailed, whose text holds nothing of key or answer."""
    parts = urlsplit(endpoint)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    cut = _Cut(seconds)
    try:
        connection.connect()
        cut.start(connection.sock)
        connection.request(
            "POST", f"{parts.path.rstrip('/')}/chat/completions", _body(model, system, user), _headers(key)
        )
        response = connection.getresponse()
        body = response.read(_MOST + 1)
        if cut.is_done:  # what was read is a part only
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        is_late = cut.is_done or isinstance(error, TimeoutError)
        what = f"did not answer within {seconds:g} s" if is_late else "cannot be reached"
        raise ChatFailed(what, again=not is_late) from error
    finally:
        cut.cancel()
        connection.close()
    if response.status != 200:
        raise ChatFailed(f"answered {response.status}", again=response.status == 429 or response.status >= 500)
    if len(body) > _MOST:
        raise ChatFailed("answered more than the limit", again=False)
    return body


class _Cut:
    """End a request that trickles on for ever: a time limit of the socket counts from byte to byte only."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self.is_done = False

    def start(self, connected: socket.socket) -> None:
        self._socket = connected
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.is_done = True
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


def _headers(key: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return headers | {"Authorization": f"Bearer {key}"} if key else headers


def _body(model: str, system: str, user: str) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return orjson.dumps(
        {
            "model": model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": _ANSWER_TOKENS,
            "response_format": {"type": "json_object"},
        }
    )
