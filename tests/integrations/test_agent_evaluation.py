"""The key of the model that judges is for its host alone."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

import pytest

from gitsync.agents.model.evaluation import Judge
from gitsync.errors import ClusterUnavailable
from gitsync.integrations.agent_evaluation import ask_judge, send
from tests.http_service import serve_http


def test_a_redirect_is_not_followed_with_the_key() -> None:
    seen: list[str] = []

    class Thief(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(str(self.headers["Authorization"]))
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - a name of http.server

        def log_message(self, *args: object) -> None:
            """Stay quiet."""

    with serve_http(Thief) as port:

        class Redirecting(Thief):
            def do_POST(self) -> None:
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{port}/")
                self.end_headers()

        with serve_http(Redirecting) as redirecting:
            url = f"http://127.0.0.1:{redirecting}"
            judge = Judge.model_validate({"id": "m", "endpoint": url})
            with pytest.raises(ClusterUnavailable, match="HTTP Error 302"):
                ask_judge(judge, "canary-key", "question", 5)
            with pytest.raises(ClusterUnavailable, match="HTTP Error 302"):
                send(url, "question", 5)
    assert seen == []
