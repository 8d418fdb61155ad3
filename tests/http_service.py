"""Serve a request handler on loopback, for fakes of HTTP services."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def serve_http(handler: type[BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[int]:
    """Serve until the end of the block and return the port; a certificate file (with its key) turns on TLS."""
    quiet = type(handler.__name__, (handler,), {"log_message": lambda *_: None})  # no access log
    server = ThreadingHTTPServer(("127.0.0.1", 0), quiet)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
