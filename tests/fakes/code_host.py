"""A Git host in this process that answers the requests of the port by the APIs of Gitea and GitHub, over real HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.http_service import serve_http

_PREFIX = re.compile(r"/(?:prefix/)?api/v[13]/")
REPOSITORY = "team/shop"


@dataclass
class HostServer:
    """
    One repository at a host, and what was requested of it: (method, path, body).

    ``limits`` are headers of a rate limit that is used up; ``tokens`` are the values of Authorization that may come.
    """

    page_size: int = 50
    login: str = "gitsync-bot"
    base: str = ""
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    reviews: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    limits: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=lambda: {"token TOKEN", "Bearer TOKEN"})
    failure: int = 0
    _second: int = 0

    def add(self, number: int, commit: str = "", **members: Any) -> dict[str, Any]:
        """Open a pull request, or push to it."""
        self._second += 1
        repository = {"full_name": REPOSITORY}
        pull = self.pulls.setdefault(
            number,
            {
                "number": number,
                "title": f"Change {number}",
                "state": "open",
                "user": {"login": "ada"},
                "head": {"ref": f"change/{number}", "sha": commit or f"{number:040x}", "repo": repository},
                "base": {"ref": "main", "repo": repository},
                "html_url": f"{self.base}/{REPOSITORY}/pulls/{number}",
            },
        )
        if commit:
            pull["head"] = {**pull["head"], "sha": commit}
        time = f"{self._second // 3600:02}:{self._second // 60 % 60:02}:{self._second % 60:02}"
        pull.update(members, updated_at=f"2026-11-25T{time}Z")
        return pull

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        """Return status and body of a request."""
        parts = urlsplit(target)
        path = _PREFIX.sub("", parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if path == "user":
            return 200, {"login": self.login}
        path = path.removeprefix(f"repos/{REPOSITORY}/")
        match path.split("/"), method:
            case ["pulls"], "GET":
                return 200, self._listed(query)
            case ["pulls"], "POST":
                number = max(self.pulls, default=0) + 1
                base = {"ref": body["base"], "repo": {"full_name": REPOSITORY}}
                return 201, self.add(number, title=body["title"], body=body["body"], base=base)
            case ["pulls", number], "GET":
                return (200, self.pulls[int(number)]) if int(number) in self.pulls else (404, {"message": "Not Found"})
            case ["pulls", number], "PATCH":
                return 200, self.add(int(number), **body)
            case ["pulls", number, "reviews"], "GET":
                return 200, self.reviews.get(int(number), [])
            case ["statuses", commit], "POST":
                self.statuses.setdefault(commit, []).append(body)
                return 201, body
            case ["issues", "comments", id], "PATCH":
                return self._edited(int(id), body)
            case ["issues", number, "comments"], "POST":
                comment = {"id": len(self.requests) * 100, "user": {"login": self.login}, **body}
                self.comments.setdefault(int(number), []).append(comment)
                return 201, comment
            case ["issues", number, "comments"], "GET":
                return 200, self.comments.get(int(number), [])
            case ["collaborators", user, "permission"], "GET":
                known = self.permissions.get(user)
                return (200, {"permission": known}) if known else (404, {"message": "no such user"})
        return 404, {"message": f"{method} {path} is not known"}

    def _listed(self, query: dict[str, str]) -> list[dict[str, Any]]:
        wanted = [pull for pull in self.pulls.values() if query["state"] == "all" or pull["state"] == "open"]
        newest = sorted(wanted, key=lambda pull: str(pull["updated_at"]), reverse=True)
        start = (int(query["page"]) - 1) * self.page_size
        return newest[start : start + self.page_size]

    def _edited(self, id: int, body: Any) -> tuple[int, Any]:
        for comments in self.comments.values():
            for comment in comments:
                if comment["id"] == id:
                    comment.update(body)
                    return 200, comment
        return 404, {"message": "Not Found"}


@contextmanager
def code_host(server: HostServer) -> Iterator[HostServer]:
    """Serve a host until the end of the block; ``base`` is then its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            server.requests.append((self.command, self.path, body))
            status, answer = self._answer(body)
            etag = f'"{hash(json.dumps(answer, sort_keys=True))}"'
            if status == 200 and self.command == "GET" and self.headers.get("If-None-Match") == etag:
                status = 304
            text = b"" if status == 304 else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {"ETag": etag, "Content-Length": str(len(text)), **server.limits}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def _answer(self, body: Any) -> tuple[int, Any]:
            if server.failure:
                return server.failure, {"message": "the host\nfails"}
            if self.headers.get("Authorization") not in server.tokens:
                return 401, {"message": "Bad credentials"}
            return server.answer(self.command, self.path, body)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PATCH(self) -> None:
            self._serve()

    with serve_http(Handler) as port:
        server.base = f"http://127.0.0.1:{port}"
        yield server
