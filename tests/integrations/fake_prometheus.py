"""A fake Prometheus server: instant and range queries with the results that a test sets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.http_service import serve_http

Answer = tuple[int, bytes]
_MOMENT = 1763632800.781


def vector(*series: tuple[dict[str, str], str]) -> Answer:
    """Return an instant vector, each series by its labels and its value."""
    result = [{"metric": labels, "value": [_MOMENT, value]} for labels, value in series]
    return success("vector", result)


def scalar(value: str) -> Answer:
    return success("scalar", [_MOMENT, value])


def success(kind: str, result: Any) -> Answer:
    return 200, json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def failure(code: int, kind: str, error: str) -> Answer:
    return code, json.dumps({"status": "error", "errorType": kind, "error": error}).encode()


@dataclass
class Served:
    """What came in, and what goes out: by query, else ``default``."""

    url: str = ""
    default: Answer = field(default_factory=lambda: vector(({}, "0")))
    by_query: dict[str, Answer] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    delay: float = 0.0


@contextmanager
def prometheus(certificate: Path | None = None, prefix: str = "") -> Iterator[Served]:
    """Serve one until the end of the block, with TLS where there is a certificate (and its key) to serve."""
    state = Served()
    with serve_http(_handler(state, f"{prefix}/api/v1/query"), certificate) as port:
        state.url = f"http{'s' if certificate else ''}://127.0.0.1:{port}{prefix}"
        yield state


def _handler(state: Served, path: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            query = parse_qs(asked.query)["query"][0]
            state.queries.append(query)
            state.headers.append(dict(self.headers.items()))
            status, body = state.by_query.get(query, state.default)
            if asked.path not in (path, f"{path}_range"):
                status, body = failure(404, "not_found", "page not found")
            time.sleep(state.delay)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{path}?query=elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
