"""An agent for tests: it answers each question with its prompt; one that says ``down`` answers 503."""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Answer ``POST /ask``."""

    def do_POST(self) -> None:
        """Answer with the prompt of this moment."""
        self.rfile.read(int(self.headers["Content-Length"]))
        prompt = Path(os.environ["PROMPT_FILE"]).read_text(encoding="utf-8")
        body = json.dumps({"answer": prompt}).encode()
        self.send_response(503 if "down" in prompt else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer((os.environ["POD_IP"], 8080), Handler).serve_forever()
