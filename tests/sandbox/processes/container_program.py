"""A program for containers: an HTTP server that reports what it was given, and does what its arguments name."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

DRAINING, ANSWERED = threading.Event(), threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name == "slow":  # ends after a drain has begun
            print("receives /slow", flush=True)
            DRAINING.wait(60)
            time.sleep(0.5)
        elif name == "drain":
            DRAINING.set()
            ANSWERED.wait(60)
        if name == "ready" and not Path(os.environ["HOME"], "ready").exists():
            self.send_error(503)
            return
        file = os.environ.get("SETTINGS")
        settings = Path(file).read_text() if file else ""
        body = json.dumps({"path": self.path, "env": dict(os.environ), "settings": settings, "args": sys.argv[1:]})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())
        if name == "slow":
            ANSWERED.set()

    def do_POST(self) -> None:
        """Answer a message of A2A with the arguments."""
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"messageId": "2", "role": "ROLE_AGENT", "parts": [{"text": " ".join(sys.argv[1:])}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"message": message}}).encode())

    def log_message(self, format: str, *args: object) -> None:
        print(f"request {self.path}", flush=True)


def finish(number: int, frame: FrameType | None) -> None:
    print("drained", flush=True)
    raise SystemExit(0)


def main() -> None:
    print(f"starts as {' '.join(sys.argv[1:])}", flush=True)
    if sys.argv[1:2] == ["exit"]:
        raise SystemExit(int(sys.argv[2]))
    if sys.argv[1:2] == ["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    signal.signal(signal.SIGTERM, finish)
    ThreadingHTTPServer((os.environ["POD_IP"], 8080), Handler).serve_forever()


main()
