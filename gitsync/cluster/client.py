"""Client: HTTP requests to an API server, with the official client's configuration, sign-in and TLS, and raw JSON."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

import httptools
import orjson
from prometheus_client import Counter, Histogram

from gitsync import __version__
from gitsync.cluster.errors import failure, unreachable
from gitsync.errors import ClusterUnavailable, InvalidInput, one_line
from gitsync.runtime.work_costs import count_request

_log = logging.getLogger(__name__)
_CONNECT = 10.0  # seconds, as client-go has for a TLS handshake; a load balancer without a server behind it is silent
_READ = 30.0
# Seconds of silence after which a watch is restarted: the connection may be half open. Bookmarks come each minute.
_WATCH_READ = 90.0

_CHUNK = 1 << 16  # bytes of an answer that are read at once
_FINAL = 200  # the first status of an answer that no other follows

# seconds for which a token is used before it is checked whether the credentials have a newer one
_TOKEN_CHECK = 1.0

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is. An empty ``kubeconfig`` and ``context`` mean the usual places, then in-cluster."""

    kubeconfig: str = ""
    context: str = ""
    pool: int = 64
    seconds: float = _READ
    """The time limit for each read of a response; a watch has its own."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; ``read`` is a time limit in seconds of its own for each read of its response."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Any = None
    content_type: str = ""
    accept: str = "application/json"
    user: str = ""
    read: float | None = None

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def headers(self) -> dict[str, str]:
        """The headers, without those of a sign-in."""
        headers = {"Accept": self.accept, "User-Agent": f"gitsync/{__version__}"}
        if self.content_type:
            headers["Content-Type"] = self.content_type
        if self.user:
            headers["Impersonate-User"] = self.user
        return headers

    @property
    def content(self) -> bytes | None:
        """The body as JSON, None without one."""
        return orjson.dumps(self.body) if self.content_type else None


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer to a request; its headers have names as in ``Retry-After``."""

    status: int
    headers: Mapping[str, str]
    data: bytes


@dataclass(frozen=True, slots=True)
class _SignedIn:
    """The headers of a client's sign-in, and the monotonic time until which they are used."""

    api: Any
    headers: Mapping[str, str]
    until: float


@dataclass(frozen=True, slots=True)
class _Pool:
    """The connections of a client to its API server, and the path before those of the API, as behind a gateway."""

    api: Any
    connections: Any
    host: str
    prefix: str


class Client:
    """
    Send requests and return parsed JSON; every failure is a GitsyncError.

    A 401 loads the credentials again, once, and repeats the request. Nothing else is repeated here: whether a
    request whose answer was lost took effect is for the caller to find out.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._api = _connect(connection)
        self._named: str | None = None
        self._signed_in: _SignedIn | None = None
        self._pool: _Pool | None = None

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return str(self._api.configuration.host)

    @property
    def place(self) -> str:
        """Where the API server is, and which kubeconfig and context say so."""
        # kept, since each request fails while the server is down, and the file may be large
        if self._named is None:
            self._named = _names(self._connection)
        return f"{self.host} ({self._named})" if self._named else self.host

    def get(
        self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json", user: str = ""
    ) -> Any:
        """Return the parsed answer of a GET."""
        return self._json(Request("GET", path, query, accept=accept, user=user))

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return the answer of a GET as text, such as the log of a container."""
        return self._ask(Request("GET", path, query, accept="text/plain, */*")).data.decode(errors="replace")

    def apply(self, path: str, body: Mapping[str, Any], query: Mapping[str, str], *, user: str = "") -> Any:
        """Return the object after a server-side apply."""
        return self._json(Request("PATCH", path, query, body, APPLY, user=user))

    def patch(
        self, path: str, operations: Sequence[Mapping[str, Any]], query: Mapping[str, str], *, user: str = ""
    ) -> Any:
        """Return the object after a JSON patch."""
        return self._json(Request("PATCH", path, query, operations, JSON_PATCH, user=user))

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str] | None = None,
        *,
        user: str = "",
    ) -> Any:
        """Return the parsed answer of a POST, PUT or DELETE with a JSON body."""
        return self._json(Request(method, path, query, body, "application/json", user=user))

    def stream(self, path: str, query: Mapping[str, str]) -> Stream:
        """Open a watch."""
        return Stream(self._answer(Request("GET", path, query, read=_WATCH_READ), self._send), path)

    def close(self) -> None:
        """Close idle connections."""
        # urllib3 closes connections when nothing refers to their pool any more
        self._pool = None
        self._api.rest_client.close()

    def _json(self, request: Request) -> Any:
        try:
            return orjson.loads(self._ask(request).data)
        except orjson.JSONDecodeError as error:
            raise ClusterUnavailable(f"{request.method} {request.path} was not answered with JSON") from error

    def _ask(self, request: Request) -> Answer:
        """Return the whole answer of a request that succeeded."""
        answer: Answer = self._answer(request, self._exchange)
        return answer

    def _answer(self, request: Request, send: Callable[[Any, Request, Mapping[str, str]], Any]) -> Any:
        """Return the answer of a request that succeeded."""
        from urllib3.exceptions import HTTPError

        method = request.method
        path = request.path
        for is_last in (False, True):
            api = self._api
            headers = {**request.headers, **self._sign_in(api)}
            began = time.monotonic()
            code = None
            try:
                response = send(api, request, headers)
                code = response.status
                if code < 400:
                    return response
                content = response.data  # read, so that the connection goes back to the pool
            except (HTTPError, OSError) as error:
                # the authority in the kubeconfig was replaced: the next request reads the file again
                if _UNTRUSTED in str(error):
                    self._reload(api)
                raise unreachable(method, path, error, self.place) from error
            finally:
                seconds = time.monotonic() - began
                count(method, path, request.query, code, seconds)
                _log.debug("api request", extra={"method": method, "path": path, "code": code, "seconds": seconds})
            if code == 401 and not is_last:
                self._reload(api)
                continue
            raise failure(code, content, response.headers, f"{method} {path}")
        raise AssertionError("unreachable")

    def _exchange(self, api: Any, request: Request, headers: Mapping[str, str]) -> Answer:
        """
        Return the whole answer, by an open connection where there is one.

        urllib3 opens connections, with TLS and proxies. On an open one it would take two thirds of the CPU time of a
        request.
        """
        pool = self._pool_of(api)
        if pool is not None:
            connection = pool.connections._get_conn()
            if connection.is_closed:
                pool.connections._put_conn(connection)
            else:
                reader = _AnswerReader()
                try:
                    return _exchanged(pool, connection, request, headers, self._read_limit(request), reader)
                except ConnectionError:
                    # It ended since its last use, such as by a gateway that forgets idle ones: what changes nothing is
                    # sent again, as urllib3 does.
                    if request.method != "GET" or reader.has_begun:
                        raise
        response = self._send(api, request, headers)
        return Answer(response.status, response.headers, response.data)

    def _send(self, api: Any, request: Request, headers: Mapping[str, str]) -> Any:
        """Return the answer, not yet read, by the connections of the official client."""
        from urllib3 import Timeout

        options: dict[str, Any] = {
            "body": request.content,
            "headers": headers,
            "timeout": Timeout(connect=_CONNECT, read=self._read_limit(request)),
            "preload_content": False,
        }
        pool = self._pool_of(api)
        if pool is None:
            # which form of the URL a proxy gets is the manager's to decide
            host = api.configuration.host
            return api.rest_client.pool_manager.urlopen(request.method, f"{host}{request.target}", **options)
        # to its pool at once: to take the URL of each request apart is a sixth of its CPU time
        return pool.connections.urlopen(request.method, f"{pool.prefix}{request.target}", **options, redirect=False)

    def _read_limit(self, request: Request) -> float:
        return request.read or self._connection.seconds

    def _pool_of(self, api: Any) -> _Pool | None:
        """Return the connections to the API server, None behind a proxy."""
        pool = self._pool
        manager = api.rest_client.pool_manager
        if manager.proxy is not None:
            return None
        if pool is None or pool.api is not api:
            host = api.configuration.host
            parts = urlsplit(host)
            pool = self._pool = _Pool(api, manager.connection_from_url(host), parts.netloc, parts.path)
        return pool

    def _sign_in(self, api: Any) -> Mapping[str, str]:
        """Return the headers of the sign-in; the official client is asked for a renewed token once per second."""
        signed = self._signed_in
        now = time.monotonic()
        if signed is None or signed.api is not api or now >= signed.until:
            headers: dict[str, str] = {}
            api.update_params_for_auth(headers, None, ["BearerToken"], "", "", None)
            signed = self._signed_in = _SignedIn(api, headers, now + _TOKEN_CHECK)
        return signed.headers

    def _reload(self, refused: Any) -> None:
        with self._lock:
            if self._api is refused:  # else another thread has just done it
                self._api = _connect(self._connection)
                self._named = None


def _exchanged(
    pool: _Pool,
    connection: Any,
    request: Request,
    headers: Mapping[str, str],
    read_limit: float,
    reader: _AnswerReader,
) -> Answer:
    """Return the answer to a request on an open connection, which goes back to its pool."""
    try:
        connection.sock.settimeout(read_limit)
        # in one write: the server gets one TLS record, and is woken once
        connection.sock.sendall(_message(pool, request, headers))
        while not reader.is_complete:
            reader.feed(connection.sock.recv(_CHUNK))
    finally:
        if not reader.is_kept:
            connection.close()
        pool.connections._put_conn(connection)
    return Answer(reader.status, reader.headers, b"".join(reader.parts))


def _message(pool: _Pool, request: Request, headers: Mapping[str, str]) -> bytes:
    """Return a request as it is sent."""
    content = request.content
    fields = {"Host": pool.host, "Accept-Encoding": "identity", **headers}
    if content is not None:
        fields["Content-Length"] = str(len(content))
    lines = [f"{request.method} {pool.prefix}{request.target} HTTP/1.1", *map(": ".join, fields.items())]
    # a line break in the name of an object or a user would begin another header, or another request
    if not all(map(str.isprintable, lines)):
        # without the headers, of which one is the token
        raise ValueError(f"control character in the headers of {request.method} {request.path!r}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (content or b"")


class _AnswerReader:
    """Read one answer; the methods ``on_`` are called by httptools."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.has_begun = False
        self.is_complete = False
        self.is_kept = False
        """Whether the connection can take another request."""
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, content: bytes) -> None:
        """Take what the server sent: nothing where it closed the connection."""
        if not content:
            # a body without a length ends with the connection (RFC 9112, 6.3)
            if not self.status or self.headers.keys() & {"Content-Length", "Transfer-Encoding"}:
                raise ConnectionResetError("the server closed the connection without a whole answer")
            self.is_complete = True
            return
        self.has_begun = True
        try:
            self._parser.feed_data(content)
        except httptools.HttpParserError as error:
            raise OSError(f"the answer is not valid HTTP: {error}") from error

    def on_message_begin(self) -> None:
        """Reject a second answer, which the next request would take for its own."""
        if self.is_complete:
            self.is_kept = False
            raise ValueError("a request has one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, its name in the usual case."""
        self.headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Keep the status; 0 for one of 1xx, which another answer follows."""
        code = self._parser.get_status_code()
        self.status = code if code >= _FINAL else 0

    def on_body(self, content: bytes) -> None:
        """Keep a part of the body."""
        self.parts.append(content)

    def on_message_complete(self) -> None:
        """End the answer."""
        self.is_kept = self._parser.should_keep_alive()
        self.is_complete = bool(self.status)


class DirectAnswer(Protocol):
    """The answer of an API server in this process."""

    status: int
    body: bytes
    headers: dict[str, str]


class DirectClient(Client):
    """
    Ask an API server in this process, without a connection: such as a process that has no network.

    ``answer`` gets the method, the path with its query, the headers with names in lower case, and the body. It has no
    watches.
    """

    def __init__(self, answer: Callable[[str, str, Mapping[str, str], bytes], DirectAnswer]) -> None:
        # without a connection there is nothing to set up
        self._direct = answer

    @property
    def host(self) -> str:
        """What messages name instead of a URL."""
        return "this process"

    @property
    def place(self) -> str:
        """Where the API server is."""
        return self.host

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _ask(self, request: Request) -> Answer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self._direct(request.method, request.target, headers, request.content or b"")
        if answer.status >= 400:
            raise failure(answer.status, answer.body, answer.headers, f"{request.method} {request.path}")
        return Answer(answer.status, answer.headers, answer.body)


_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""The reason of OpenSSL for a certificate whose authority is not trusted."""


class Stream:
    """The lines of an open watch, as parsed JSON; ``close`` from any thread ends it."""

    def __init__(self, response: Any, path: str) -> None:
        self._response = response
        self._path = path
        self._closed = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        rest = b""
        try:
            while chunk := self._response.read1(1 << 20):
                *lines, rest = (rest + chunk).split(b"\n")  # a chunk may end inside an event
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)
        except ReadTimeoutError:
            return  # silent for too long: the caller restarts the watch from its last version
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # a closed response fails in as many ways as it can be read; on purpose that is the end
            if not self._closed:
                raise unreachable("GET", self._path, error) from error

    def close(self) -> None:
        """End the watch and give up its connection."""
        self._closed = True
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self._response.close()


def segment(text: str) -> str:
    """Return one URL path segment, quoted."""
    return quote(text, safe="")


def _connect(connection: Connection) -> Any:
    """Return a fresh ApiClient, its credentials read now."""
    from kubernetes import config
    from kubernetes.client import ApiClient, Configuration
    from yaml import YAMLError

    configuration = Configuration()
    try:
        _load(config, connection)(configuration)
    # the official client reads members as they come: a file of another form fails in as many ways as there are
    except (config.ConfigException, YAMLError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidInput(
            f"no usable cluster configuration: {_problem_of(error)}",
            location=_kubeconfig(connection) or "--kubeconfig",
            hint="name a kubeconfig file",
        ) from error
    configuration.retries = False  # we decide what is tried again
    configuration.connection_pool_maxsize = connection.pool
    return ApiClient(configuration)


def _problem_of(error: Exception) -> str:
    """Return in one line what is wrong with a kubeconfig."""
    from yaml import MarkedYAMLError

    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: invalid YAML: {error.problem}"
    # of a member with another type; the message is about Python's types
    if isinstance(error, TypeError | AttributeError):
        return "clusters, contexts and users are not lists of named entries"
    return one_line(str(error), 300)


def _kubeconfig(connection: Connection) -> str:
    """Return the kubeconfig files that are named, empty for the usual place and in a cluster."""
    return connection.kubeconfig or os.environ.get("KUBECONFIG", "")


def _names(connection: Connection) -> str:
    """Return the kubeconfig and the context that a connection uses, empty in a cluster."""
    from kubernetes.config import ConfigException, list_kube_config_contexts
    from yaml import YAMLError

    list_contexts: Callable[[str | None], Any] = list_kube_config_contexts
    if _is_in_cluster(connection):
        return ""
    context = connection.context
    if not context:
        # the file may have been changed or removed since it was read
        with suppress(ConfigException, YAMLError, OSError, TypeError, ValueError, KeyError, AttributeError):
            context = list_contexts(_kubeconfig(connection) or None)[1]["name"]
    names = (("kubeconfig", _kubeconfig(connection) or "~/.kube/config"), ("context", context))
    return ", ".join(f"{what} {name}" for what, name in names if name)


def _is_in_cluster(connection: Connection) -> bool:
    """Return whether the credentials of the Pod are used."""
    in_cluster = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    return not connection.kubeconfig and not connection.context and in_cluster.is_file()


def _load(config: Any, connection: Connection) -> Callable[[Any], None]:
    if _is_in_cluster(connection):
        return lambda configuration: config.load_incluster_config(client_configuration=configuration)
    return lambda configuration: config.load_kube_config(
        config_file=_kubeconfig(connection) or None,
        context=connection.context or None,
        client_configuration=configuration,
        persist_config=False,
    )


_LABELS = ["verb", "resource", "code"]
_REQUESTS = Counter("gitsync_api_requests", "Requests to the API server", _LABELS)
_DURATION = Histogram(
    "gitsync_api_request_duration_seconds",
    "Until a request was answered, a watch until its answer began",
    ["verb", "resource"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_UNANSWERED = "none"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "apply", "DELETE": "delete"}


def count(method: str, path: str, query: Mapping[str, str] | None, code: int | None, seconds: float) -> None:
    """Count a request; ``code`` is None when no answer came."""
    count_request()
    resource, is_one = resource_of(path)
    verb = _VERBS.get(method) or ("watch" if "watch" in (query or {}) else "get" if is_one else "list")
    _REQUESTS.labels(verb, resource, str(code or _UNANSWERED)).inc()
    _DURATION.labels(verb, resource).observe(seconds)


def resource_of(path: str) -> tuple[str, bool]:
    """
    Return the resource of a URL path, such as ``deployments.apps/status``, and whether one object is meant.

    No name of an object or namespace is in it, so there are only as many as the cluster serves kinds.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group = ""
        rest = parts[2:]
    elif parts[0] == "apis":
        group = parts[1] if len(parts) > 1 else ""
        rest = parts[3:]
    else:
        return "openapi", True
    # namespaces/NAME/status is a subresource of a namespace, not a kind called status
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    if not rest:
        return "discovery", True
    resource = f"{rest[0]}.{group}" if group else rest[0]
    return (f"{resource}/{rest[2]}" if len(rest) > 2 else resource), len(rest) > 1
