"""A client of the dashboard: of the one that is named, else of the one that runs on the data folder."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import orjson

from gitsync.errors import ClusterUnavailable, InvalidInput, Refused, one_line
from gitsync.files import PRIVATE, create_file
from gitsync.integrations.http import RequestFailed, host_of, request

_TIMEOUT = 30.0
"""Seconds that a request may take."""
_MAX_BYTES = 32 << 20
"""Bytes that an answer may have."""
_ADDRESS, _LOCAL_TOKEN = "dashboard.url", "dashboard.token"


def address_file(data: Path) -> Path:
    """Return the file in the data folder that holds the address of the dashboard while it runs."""
    return data / _ADDRESS


def local_token(data: Path) -> str:
    """Return the token for the dashboard on loopback, which stays the same; commands find it in the data folder."""
    file = data / _LOCAL_TOKEN
    create_file(file, f"{secrets.token_urlsafe(32)}\n", PRIVATE)
    return _token(file)


@dataclass(frozen=True, slots=True)
class DashboardAddress:
    """The options of the command line: the URL of a dashboard, and the file with the token for it."""

    url: str = ""
    token_file: Path | None = None

    def find(self, data: Path) -> Dashboard | None:
        """Return the dashboard, None when none is named and none runs on the data folder."""
        token = _token(self.token_file)
        if self.url:
            if not host_of(self.url):
                raise InvalidInput(
                    f"{self.url!r} is not a valid URL", location="--server", hint="write https://gitsync.example"
                )
            return Dashboard(self.url.rstrip("/"), token)
        local = data / _LOCAL_TOKEN
        token = token or (_token(local) if local.exists() else "")
        try:
            found = Dashboard(address_file(data).read_text(encoding="utf-8").strip(), token)
        except OSError:
            return None
        return found if found.is_alive() else None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; its errors are raised as Refused or ClusterUnavailable."""

    url: str
    token: str

    def is_alive(self) -> bool:
        """Return whether it answers; the URL of a killed dashboard stays in the data folder and does not."""
        try:
            status, _ = request("GET", f"{self.url}/healthz", {}, timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
        except RequestFailed:
            return False
        return status == 200

    def plan(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the plan of an Application as JSON."""
        found: dict[str, Any] = self.get(f"{_application(namespace, name)}/plan")
        return found

    def review(self, namespace: str, name: str, review: dict[str, Any]) -> dict[str, Any]:
        """Approve or reject a plan."""
        answer = self._request("POST", f"{_application(namespace, name)}/review", orjson.dumps(review))
        found: dict[str, Any] = _json(answer)
        return found

    def get(self, path: str) -> Any:
        """Return the parsed answer of a path of the API."""
        return _json(self._request("GET", path, None))

    def text(self, path: str) -> str:
        """Return the answer of a path of the API as text."""
        return self._request("GET", path, None).decode(errors="replace")

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            status, answer = request(method, self.url + path, headers, body, timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
        except RequestFailed as error:
            raise ClusterUnavailable(f"the dashboard {error}", location=self.url) from error
        if status != 200:
            found = _json(answer)
            detail = str(found.get("detail", "")) if isinstance(found, dict) else ""
            _fail(self.url, status, detail or answer.decode(errors="replace"))
        return answer


def _application(namespace: str, name: str) -> str:
    return f"/api/v1/applications/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _fail(url: str, status: int, text: str) -> NoReturn:
    message = one_line(text, 500) or f"the dashboard answered {status}"
    if status == 401:
        raise Refused("the dashboard requires you to sign in", location=url, hint="give your token with --token-file")
    if status == 503:
        raise ClusterUnavailable(message, location=url)
    raise Refused(message, location=url)


def _json(answer: bytes) -> Any:
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {}


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("cannot read the token file", location=str(file)) from error
