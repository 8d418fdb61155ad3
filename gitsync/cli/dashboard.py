"""The dashboard of a command: its socket, address and client, and the port-forward that reaches it in a cluster."""

from __future__ import annotations

import atexit
import errno
import os
import re
import secrets
import shutil
import socket
import subprocess
import threading
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import quote, urlencode

import orjson

from gitsync.cli.options import DATA, NAMESPACE, Data, ServerUrl, TokenFile
from gitsync.errors import ClusterUnavailable, InvalidInput, Refused, one_line
from gitsync.files import PRIVATE, create_file
from gitsync.integrations.http import RequestFailed, host_of, request

_TIMEOUT = 30.0
"""Seconds that a request may take."""
_MAX_BYTES = 32 << 20
"""Bytes that an answer may have."""
_ADDRESS = "dashboard.url"
_LOCAL_TOKEN = "dashboard.token"
_SERVICE = "service/gitsync"
_SECONDS = 15.0
"""How long kubectl may take until it forwards."""
_TOKEN_HINT = "it may have expired, or be one of another dashboard; give the right one with --token-file"
_READY = re.compile(r"Forwarding from (127\.0\.0\.1:\d+) ")


def listen(host: str, port: int, *, alternatives: int = 0) -> socket.socket:
    """
    Return a socket that listens on a port, or on the first free one of the ``alternatives`` after it.

    Raise InvalidInput when the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and alternatives and port < 65535:
            return listen(host, port + 1, alternatives=alternatives - 1)
        raise InvalidInput(
            f"cannot listen on {host}:{port}: {error.strerror}",
            location="--port",
            hint="choose a free port with --port or GITSYNC_WEB_PORT; 0 picks one",
        ) from error


def address_file(data: Path) -> Path:
    """Return the file in the data folder that holds the address of the dashboard while it runs."""
    return data / _ADDRESS


def local_token(data: Path) -> str:
    """Return the token for the dashboard on loopback, which stays the same; commands find it in the data folder."""
    file = data / _LOCAL_TOKEN
    create_file(file, f"{secrets.token_urlsafe(32)}\n", PRIVATE)
    return read_token(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """The options that name a dashboard: its URL, or the data folder that it runs on, and the user's token."""

    server: ServerUrl = ""
    token_file: TokenFile = None
    data: Data = DATA

    def find(self) -> Dashboard | None:
        """Return the dashboard, None when none is named and none runs on the data folder."""
        token = read_token(self.token_file)
        if self.server:
            if not host_of(self.server):
                raise InvalidInput(
                    f"{self.server!r} is not a valid URL", location="--server", hint="write https://gitsync.example"
                )
            return Dashboard(self.server.rstrip("/"), token)
        # a generated token exists only where the dashboard runs on loopback without users of its own
        local = self.data / _LOCAL_TOKEN
        token = token or (read_token(local) if local.exists() else "")
        try:
            running = Dashboard(address_file(self.data).read_text(encoding="utf-8").strip(), token)
        except OSError:
            return None
        return running if running.is_alive() else None  # a killed controller leaves the file behind

    def require(self) -> Dashboard:
        """Return the dashboard, else that of the cluster; raise InvalidInput where there is none."""
        dashboard = self.find()
        if dashboard is None and can_forward():
            dashboard = replace(self, server=forward()).find()
        if dashboard is None:
            raise InvalidInput(
                "no dashboard runs on the data folder",
                location=str(self.data),
                hint="name one with --server URL, or give the data folder of the controller with --data",
            )
        return dashboard


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; its errors are raised as Refused or ClusterUnavailable."""

    url: str
    token: str

    def is_alive(self) -> bool:
        """Return whether it answers; the URL of a killed dashboard stays in the data folder and does not."""
        try:
            # answers without a token: a wrong one is reported by the request itself
            status, _ = request("GET", f"{self.url}/healthz", {}, timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
        except RequestFailed:
            return False
        return status == 200

    def plan(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the plan of an Application as JSON."""
        answer: dict[str, Any] = self.get(f"{_application(namespace, name)}/plan")
        return answer

    def review(self, namespace: str, name: str, review: dict[str, Any]) -> dict[str, Any]:
        """Approve or reject a plan."""
        answer = self._request("POST", f"{_application(namespace, name)}/review", orjson.dumps(review))
        reviewed: dict[str, Any] = self._parsed(answer)
        return reviewed

    def sync(self, namespace: str, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Request a sync of chosen objects, or a dry run of it; return the answer as JSON."""
        answer = self._request("POST", f"{_application(namespace, name)}/sync", orjson.dumps(wanted))
        taken: dict[str, Any] = self._parsed(answer)
        return taken

    def get(self, path: str) -> Any:
        """Return the parsed answer of a path of the API."""
        return self._parsed(self._request("GET", path, None))

    def text(self, path: str) -> str:
        """Return the answer of a path of the API as text."""
        return self._request("GET", path, None).decode(errors="replace")

    def _parsed(self, answer: bytes) -> Any:
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise ClusterUnavailable(
                "the answer is not JSON, so it is not one of gitsync's dashboard",
                location=self.url,
                hint="a proxy may have answered with a page to sign in; name the dashboard itself with --server",
            ) from error

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            status, answer = request(method, self.url + path, headers, body, timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
        except RequestFailed as error:
            raise ClusterUnavailable(f"the dashboard {error}", location=self.url) from error
        if status != 200:
            if status == 401 and self.token:
                raise Refused("the dashboard does not accept your token", location=self.url, hint=_TOKEN_HINT)
            _fail(self.url, status, _detail(answer) or answer.decode(errors="replace"))
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


def _detail(answer: bytes) -> str:
    """Return the message of an error of the API, empty for another answer."""
    try:
        problem = orjson.loads(answer)
    # a proxy in front of the dashboard may answer with a page
    except orjson.JSONDecodeError:
        return ""
    return str(problem.get("detail", "")) if isinstance(problem, dict) else ""


def read_token(file: Path | None) -> str:
    """Return the token in a file, empty without one; raise InvalidInput where it cannot be read."""
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("cannot read the token file", location=str(file)) from error


def items(dashboard: Dashboard, path: str, limit: int, **query: str) -> list[dict[str, Any]]:
    """Return at most ``limit`` items of a list of the API, page by page."""
    parameters = {name: text for name, text in query.items() if text}
    # 500 is the largest page of the API
    url = f"/api/v1/{path}?{urlencode({**parameters, 'limit': str(min(limit, 500))})}"
    collected: list[dict[str, Any]] = []
    while url and len(collected) < limit:
        page = dashboard.get(url)
        collected += page["items"]
        url = page["next"]
    return collected[:limit]


def one_object(dashboard: Dashboard, application: str, text: str) -> str:
    """Return the ref of an object that is written as ``kind/name`` or ``group/kind/namespace/name``."""
    if text.count("/") >= 3:  # a full ref, which also names what the Application only owns
        return text
    kind, _, name = text.partition("/")
    if not (kind and name):
        raise InvalidInput(f"{text!r} is not an object", location="OBJECT", hint="write Deployment/web")
    matching = items(dashboard, "objects", 2, q=f'app:{application} kind:{kind} name:"{name}"')
    if len(matching) == 1:
        return "/".join(matching[0][part] for part in ("group", "kind", "namespace", "name"))
    # what controllers create is in the tree, not among the declared objects: Pods, and the Deployment of an Agent
    if not matching:
        return _part(dashboard, application, kind.lower(), name)
    raise InvalidInput(
        f"{text} is in several namespaces or groups of Application {application}",
        hint="write it as group/kind/namespace/name",
    )


def _part(dashboard: Dashboard, application: str, kind: str, name: str) -> str:
    waiting: list[dict[str, Any]] = list(dashboard.get(f"{application_path(application)}/tree"))
    while waiting:
        node = waiting.pop()
        if (node["kind"].lower(), node["name"]) == (kind, name):
            return str(node["ref"])
        waiting += node["children"]
    raise InvalidInput(f"{kind}/{name} is not part of Application {application}", hint="see `gitsync tree`")


def application_path(application: str) -> str:
    """Return the path of an Application in the API."""
    return "/api/v1/applications/" + "/".join(quote(part, safe="") for part in application.split("/", 1))


def can_forward() -> bool:
    """Return whether there are a kubectl and a kubeconfig."""
    config = _given() or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    # KUBECONFIG may name several files
    return shutil.which("kubectl") is not None and any(map(os.path.exists, config.split(os.pathsep)))


def forward() -> str:
    """Return the URL of the dashboard in the cluster, which is reached until this process ends."""
    # kubectl does not know the variable of gitsync
    place = [f"--kubeconfig={_given()}"] if _given() else []
    command = [
        "kubectl",
        *place,
        "--namespace",
        NAMESPACE,
        "port-forward",
        "--address",
        "127.0.0.1",
        _SERVICE,
        ":80",
    ]  # any local port
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    atexit.register(process.kill)  # kubectl would forward for ever
    assert process.stdout is not None
    limit = threading.Timer(_SECONDS, process.kill)  # ends the read below, which has no timeout of its own
    limit.start()
    line = process.stdout.readline()
    ready = _READY.match(line)
    limit.cancel()
    if ready is None:
        process.kill()
        reason = one_line(line + process.communicate()[0], 300)
        raise ClusterUnavailable(
            f"no dashboard runs on the data folder, nor is one reached: {reason}",
            object=f"{NAMESPACE}/{_SERVICE}",
            hint="name one with --server URL",
        )
    threading.Thread(target=_drop, args=(process.stdout,), daemon=True).start()
    return f"http://{ready[1]}"


def _given() -> str:
    return os.environ.get("GITSYNC_KUBECONFIG", "")


def _drop(stream: IO[str]) -> None:
    """Read what kubectl prints for each connection, so that it is never blocked."""
    deque(stream, maxlen=0)
