"""A Git server over HTTP on loopback for tests: real ``git http-backend``, with sign-in, delays and a count."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from gitsync.sandbox.http.transport.tls import Certificate

EVERY = -1
"""The number of all requests."""


class GitServer:
    """
    Serve the bare repositories below a folder, over HTTPS with a ``certificate``.

    ``accepted`` are the ``user:password`` pairs that may read; None admits every client. ``trickle`` is the pause after
    each byte of an answer, in seconds. ``failures`` maps a part of a URL, or ``" fetch"``, to a status code, which is
    sent with the header ``retry_after``. ``page`` is a web page that answers every request, ``redirects`` maps a path
    to where it redirects. ``cut`` closes the connection of one request, by its number or of ``EVERY``, after a part of
    its answer, from 0 to 1. ``is_old`` answers by the first version of Git's protocol only.
    ``listings`` counts polls, ``packs`` fetches, ``failed`` what ``failures``, ``page`` and ``redirects`` answered,
    ``requests`` all requests, ``connections`` those that were opened.
    """

    def __init__(self, folder: Path, certificate: Certificate | None = None) -> None:
        self.page = b""
        self.redirects: dict[str, str] = {}
        self.api: Callable[[str, str, bytes], tuple[int, bytes]] | None = None
        """What answers POST requests below ``/api/``: from path, Authorization and body to status and body."""
        self.accepted: set[str] | None = None
        self.is_old = False
        self.trickle = 0.0
        self.cut: tuple[int, float] = (0, 0.0)
        self.failures: dict[str, int] = {}
        self.requests = 0
        self.failed = 0
        self.retry_after = ""
        self.connections = 0
        self.listings = 0
        self.packs = 0
        self.lock = threading.Lock()
        self._folder = folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._scheme = "https" if certificate else "http"
        self.context = certificate.server_context() if certificate else None
        """With what it serves; another certificate can be loaded into it."""
        if self.context:
            self._server.socket = self.context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def url(self, name: str) -> str:
        """Return the URL of a repository."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/{name}"

    def __enter__(self) -> GitServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def is_accepted(self, authorization: str) -> bool:
        if self.accepted is None:
            return True
        given = authorization.removeprefix("Basic ")
        return base64.b64decode(given).decode() in self.accepted

    def failure(self, target: str) -> int:
        """Return the status code with which a request fails, 0 where it does not."""
        return next((code for text, code in self.failures.items() if text in target), 0)

    def answer(self, method: str, path: str, query: str, headers: Any, body: bytes) -> bytes:
        """Return what the CGI program says: headers, an empty line, and the body."""
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": "" if self.is_old else headers.get("Git-Protocol", ""),
        }
        return subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False).stdout


def _handler(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            with server.lock:
                server.connections += 1

        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":  # git sends large packs so
                self._serve(b"".join(iter(self._chunk, b"")))
            else:
                self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _chunk(self) -> bytes:
            content = self.rfile.read(int(self.rfile.readline(), 16))
            self.rfile.readline()
            return content

        def _serve(self, body: bytes) -> None:
            with server.lock:
                server.requests += 1
                number = server.requests
            if server.api is not None and self.path.startswith("/api/"):
                code, content = server.api(self.path, self.headers.get("Authorization", ""), body)
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            if not server.is_accepted(self.headers.get("Authorization", "")):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            path = f"/{path.partition('://')[2].partition('/')[2]}" if "://" in path else path  # asked as a proxy
            old = next((old for old in server.redirects if path.startswith(old)), "")
            code = 301 if old else server.failure(f"{self.path}{' fetch' if b'command=fetch' in body else ''}")
            if code or server.page:
                with server.lock:
                    server.failed += 1
                self.send_response(code or 200)
                if old:
                    self.send_header("Location", self.path.replace(old, server.redirects[old], 1))
                if server.retry_after:
                    self.send_header("Retry-After", server.retry_after)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(server.page)))
                self.end_headers()
                self.wfile.write(server.page)
                return
            with server.lock:
                # the first version lists with the answer that says what the server can do
                is_old = server.is_old or not self.headers.get("Git-Protocol")
                server.listings += b"command=ls-refs" in body or (is_old and query == "service=git-upload-pack")
                server.packs += b"command=fetch" in body or b"want " in body
            head, _, content = server.answer(self.command, path, query, self.headers, body).partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200")[:3]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if server.cut[0] in (number, EVERY):
                self.wfile.write(content[: int(server.cut[1] * len(content))])
                self.close_connection = True
                return
            if not server.trickle:
                self.wfile.write(content)
                return
            for byte in content:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(server.trickle)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    return Handler
