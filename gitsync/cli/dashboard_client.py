"""The dashboard as the command line asks it: one that is named, else the one that runs on this data folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import orjson

from gitsync.errors import ClusterUnavailable, InvalidInput, Refused, one_line
from gitsync.integrations.http import RequestFailed, host_of, request

_SECONDS, _MOST = 30.0, 32 << 20
_ADDRESS = "dashboard.url"


def address_file(data: Path) -> Path:
    """Return the file in the data folder that holds the address of the dashboard while it runs."""
    return data / _ADDRESS


@dataclass(frozen=True, slots=True)
class DashboardAddress:
    """What the command line was told: the address of a dashboard, and the file of the token for it."""

    url: str = ""
    token_file: Path | None = None

    def find(self, data: Path) -> Dashboard | None:
        """Return the dashboard to ask, None where none is named and none runs on this data folder."""
        token = _token(self.token_file)
        if self.url:
            if not host_of(self.url):
                raise InvalidInput(
                    f"{self.url!r} is no address", location="--server", hint="write https://gitsync.example"
                )
            return Dashboard(self.url.rstrip("/"), token)
        try:
            found = Dashboard(address_file(data).read_text(encoding="utf-8").strip(), token)
        except OSError:
            return None
        return found if found.is_there() else None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard that answers; an error of its is raised as what it is."""

    url: str
    token: str

    def is_there(self) -> bool:
        """Tell whether it answers: what is left of one that was killed does not."""
        try:
            status, _ = request("GET", f"{self.url}/healthz", {}, timeout=_SECONDS, max_bytes=_MOST)
        except RequestFailed:
            return False
        return status == 200

    def plan(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the plan of an Application as members."""
        return self._ask("GET", namespace, name, "plan", None)

    def review(self, namespace: str, name: str, word: dict[str, Any]) -> dict[str, Any]:
        """Approve or reject a plan."""
        return self._ask("POST", namespace, name, "review", orjson.dumps(word))

    def _ask(self, method: str, namespace: str, name: str, what: str, body: bytes | None) -> dict[str, Any]:
        url = f"{self.url}/api/applications/{quote(namespace, safe='')}/{quote(name, safe='')}/{what}"
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            status, answer = request(method, url, headers, body, timeout=_SECONDS, max_bytes=_MOST)
        except RequestFailed as error:
            raise ClusterUnavailable(f"the dashboard {error}", location=self.url) from error
        found = _json(answer)
        if status != 200:
            _fail(self.url, status, str(found.get("error", "")) or answer.decode(errors="replace"))
        return found


def _fail(url: str, status: int, text: str) -> NoReturn:
    what = one_line(text, 500) or f"answered {status}"
    if status == 401:
        raise Refused("the dashboard wants you to sign in", location=url, hint="give your token with --token-file")
    if status == 503:
        raise ClusterUnavailable(what, location=url)
    raise Refused(what, location=url)


def _json(answer: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("the token cannot be read", location=str(file)) from error
