"""A chat endpoint on loopback that speaks the protocol and answers what a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: state))
    server.daemon_threads = True
    state.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(state_of: Callable[[], Endpoint]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state = state_of()
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
            self._write(reply, state)

        def _write(self, reply: bytes, state: Endpoint) -> None:
            try:
                for index in range(len(reply)) if state.trickles else ():
                    self.wfile.write(reply[index : index + 1])
                    time.sleep(0.1)
                if not state.trickles:
                    self.wfile.write(reply)
            except OSError:
                pass

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
