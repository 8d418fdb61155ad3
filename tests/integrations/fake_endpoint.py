"""A fake OpenAI-compatible chat endpoint with the replies that a test sets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_service import serve_http

Reply = tuple[int, bytes]


def said(explanation: str = "It grows.", risk: str = "Safe", reason: str = "small", **more: Any) -> Reply:
    """Return a good answer, or one with further members."""
    content = json.dumps({"explanation": explanation, "risk": risk, "reason": reason, **more})
    return wrapped(content)


def wrapped(content: Any) -> Reply:
    """Return a completion with this content."""
    body = {"choices": [{"message": {"role": "assistant", "content": content}}], "usage": {"total_tokens": 100}}
    return 200, json.dumps(body).encode()


@dataclass
class Endpoint:
    """What came in, and what goes out next; the last reply stays."""

    host: str = ""
    replies: list[Reply] = field(default_factory=lambda: [said()])
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    trickles: bool = False

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://{self.host}/v1"


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Serve one until the end of the block."""
    state = Endpoint()
    with serve_http(_handler(state)) as port:
        state.host = f"127.0.0.1:{port}"
        yield state


def _handler(state: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/chat/completions"
            state.requests.append(json.loads(body))
            state.headers.append(dict(self.headers.items()))
            status, reply = state.replies.pop(0) if len(state.replies) > 1 else state.replies[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self._write(reply)

        def _write(self, reply: bytes) -> None:
            try:
                for index in range(len(reply)) if state.trickles else ():
                    self.wfile.write(reply[index : index + 1])
                    time.sleep(0.1)
                if not state.trickles:
                    self.wfile.write(reply)
            except OSError:
                pass

    return Handler
