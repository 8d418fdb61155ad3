"""
Sandbox: a Kubernetes API server in this process, for tests and for trying things out.

    with Sandbox() as sandbox:
        run(["kubectl", "--kubeconfig", sandbox.kubeconfig(tmp_path / "config"), "get", "pods"])
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import functools
import secrets
import ssl
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import orjson
import uvloop

from gitsync.files import PRIVATE, write_file
from gitsync.sandbox import bootstrap
from gitsync.sandbox.admission import Plugins
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers import Controllers
from gitsync.sandbox.definitions import Definitions
from gitsync.sandbox.faults import InjectedFault
from gitsync.sandbox.http.admin import Admin
from gitsync.sandbox.http.app import ApiServerApp
from gitsync.sandbox.http.discovery import Documents
from gitsync.sandbox.http.endpoints import ResourceEndpoints
from gitsync.sandbox.http.metrics import metrics_resources
from gitsync.sandbox.http.openapi import OpenApi
from gitsync.sandbox.http.transport.listener import Listener
from gitsync.sandbox.http.transport.messages import Answer, HttpRequest, Response
from gitsync.sandbox.http.transport.protocol import HttpConnection, serve_on
from gitsync.sandbox.http.transport.tls import Certificate, make_certificate
from gitsync.sandbox.printers import columns_of
from gitsync.sandbox.printers.table import Printer
from gitsync.sandbox.processes.api_access import ApiAccess, TokenAsked
from gitsync.sandbox.processes.environment import Images
from gitsync.sandbox.processes.proxy import ServiceProxy
from gitsync.sandbox.processes.runtime import Processes
from gitsync.sandbox.processes.volumes import Folders
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.storage import ObjectStore, SqliteJournal
from gitsync.sandbox.users import AUDIENCE, ServiceAccount, Tokens

T = TypeVar("T")


class Sandbox:
    """
    A cluster on loopback, served from a thread of its own between ``with`` and its end.

    ``data`` is a folder that keeps it over restarts; without one it lives in memory. ``workloads`` runs the
    simulated nodes and what works on them; without ``controllers`` there is only the API server. Pods whose image is in
    ``images`` run as processes, and ``proxy_url`` is an HTTP proxy that reaches their Services by name. One that is not
    ``listening`` has no address, and answers through ``answer``. Several may run in one process and share nothing.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int = 0,
        *,
        workloads: bool = True,
        controllers: bool = True,
        images: Images | None = None,
        listening: bool = True,
    ) -> None:
        self._data = data
        self._wanted_port = port
        self._workloads = workloads
        self._run_controllers = controllers
        self._images = images or {}
        self._listening = listening
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._connections: set[HttpConnection] = set()
        self.token = ""
        """The administrator's bearer token."""
        self.url = ""
        """Where it listens, such as ``http://127.0.0.1:40123``."""
        self.tls_url = ""
        """The same with TLS, on the same port; kubectl sends its token only there."""
        self.proxy_url = ""
        """The HTTP proxy to Services whose Pods run; empty without ``images``."""

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server in a thread; return when it answers."""
        started: Future[None] = Future()
        # A daemon: a test that fails before stop() must not keep the process alive.
        self._thread = threading.Thread(target=self._run, args=(started,), name="sandbox", daemon=True)
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Stop the server and close its file; a second call does nothing."""
        if self._thread is None:
            return
        self._ask_to_stop()
        self._thread.join()
        self._thread = None

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig file for the administrator, readable by its owner alone, and return its path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        authority = base64.b64encode(self.authority.encode()).decode()
        write_file(path, KUBECONFIG.format(url=self.tls_url, token=self.token, authority=authority), PRIVATE)
        return path

    @property
    def authority(self) -> str:
        """The certificate that clients of ``tls_url`` trust, as PEM."""
        return self._certificate.authority

    def rotate(self) -> None:
        """
        Serve with a new certificate of a new authority from now on, and end all connections.

        Clients need the new ``kubeconfig``. A sandbox with a ``data`` folder has its kept certificate again after a
        restart.
        """
        certificate = make_certificate()

        def replace(cluster: SandboxCluster) -> None:
            certificate.load(self._tls)
            self._certificate = certificate
            if self.controllers is not None:
                self.controllers.behaviour.ca_certificate = certificate.authority
            self._disconnect()

        self.call(replace)

    def inject(self, fault: InjectedFault) -> None:
        """Set a fault, which matching requests have from now on; see ``gitsync.sandbox.faults``."""
        self.call(lambda cluster: self._admin.inject(fault))

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.call(lambda cluster: self._admin.clear())

    def pause(self, controller: str) -> None:
        """Pause a controller such as ``garbage``; raise KeyError when there is none of that name."""
        self.call(lambda cluster: self.controllers.pause(controller) if self.controllers else None)

    def resume(self, controller: str) -> None:
        """Resume a paused controller."""
        self.call(lambda cluster: self.controllers.resume(controller) if self.controllers else None)

    def requests(self, *, verb: str = "", resource: str = "", user: str = "", agent: str = "") -> int:
        """Return how many requests were made that fit; what is empty fits all."""
        log = self._admin.requests
        return self.call(lambda cluster: log.count(verb=verb, resource=resource, user=user, agent=agent))

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock forward; what becomes due happens at once."""
        self.call(lambda cluster: cluster.clock.adjust(advance=seconds))

    def set_speed(self, factor: float) -> None:
        """Set how many sandbox seconds pass per real second."""
        self.call(lambda cluster: cluster.clock.adjust(speed=factor))

    def call(self, action: Callable[[SandboxCluster], T]) -> T:
        """Run an action on the server's thread and return its result."""
        if self._loop is None:
            raise RuntimeError("the sandbox is not running")
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(action(self.cluster))
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        """
        Return the answer to a request of the administrator, without a connection; names of headers are lower case.

        Only whole answers: what a watch sends comes through a connection.
        """
        signed = {**headers, "authorization": f"Bearer {self.token}"}
        request = HttpRequest.of(method, target, signed, body)

        async def reply() -> Answer:
            reply = self._application.handle(request)
            return await reply if isinstance(reply, Awaitable) else reply

        if self._loop is None:
            raise RuntimeError("the sandbox is not running")
        answer = asyncio.run_coroutine_threadsafe(reply(), self._loop).result()
        if not isinstance(answer, Response):
            raise TypeError(f"{method} {target} is answered by a stream, which needs a connection")
        return answer

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._main(started))
            except BaseException as error:
                # After the start no thread waits for the result; before it, start() raises the error.
                if started.done():
                    raise
                started.set_exception(error)

    async def _main(self, started: Future[None]) -> None:
        loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with AsyncExitStack() as closing:
            self._application = self._build(loop, closing)
            if self._listening:
                self._listen(closing)
            self._loop = loop
            started.set_result(None)
            await self._stopping.wait()
            self._loop = None

    def _listen(self, closing: AsyncExitStack) -> None:
        factory = serve_on(self._application.handle, self._connections)
        self._tls: ssl.SSLContext = self._certificate.server_context()
        listener = Listener(factory, self._tls, self._wanted_port)
        # Callbacks run in reverse order: the listener closes first, so no new connection comes.
        closing.callback(self._disconnect)
        closing.callback(listener.close)
        self.url = f"http://127.0.0.1:{listener.port}"
        self.tls_url = f"https://127.0.0.1:{listener.port}"
        self._documents.address = f"127.0.0.1:{listener.port}"

    def _disconnect(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def _build(self, loop: asyncio.AbstractEventLoop, closing: AsyncExitStack) -> ApiServerApp:
        token = secrets.token_urlsafe(24)
        if self._data is not None:
            journal = SqliteJournal(self._data / "sandbox.db")
            closing.callback(journal.close)
            # the first one stays: kubeconfig files outlive a restart
            token = journal.secret("token", token)
            self._certificate = _kept_certificate(journal)
            # Resuming with the last revision keeps the resourceVersions of clients valid.
            revision = journal.revision()
            store = ObjectStore(journal) if revision is None else ObjectStore(journal, revision)
            for resource, key, at, body in journal.objects():
                store.load(resource, key, at, body)
        else:
            store = ObjectStore()
            self._certificate = _process_certificate()
        self.token = token
        clock = SandboxClock(loop, time.time())
        closing.callback(clock.stop)
        self.cluster = SandboxCluster(store, clock, lambda cluster: Plugins(cluster, cluster.strategy))
        self.definitions = Definitions(self.cluster)
        self.cluster.scale_paths = self.definitions.scale_paths
        # Before the definitions start: their objects need namespaces and rights.
        bootstrap.fill(self.cluster)
        self.definitions.start()
        tokens = Tokens(token)
        runtime = self._run_pods(closing, tokens) if self._images else None
        self.controllers: Controllers | None = None
        if self._run_controllers:
            self.controllers = Controllers(self.cluster, clock, workloads=self._workloads, runtime=runtime)
            self.controllers.behaviour.ca_certificate = self._certificate.authority
            # Last, since it reads all that is stored.
            self.controllers.start()

            if self._workloads:
                for metrics_resource in metrics_resources():
                    self.cluster.registry.add(metrics_resource)

        def printer(resource: ServedResource) -> Printer:
            return Printer(self.definitions.columns_of(resource) or columns_of(resource), clock.now())

        endpoints = ResourceEndpoints(self.cluster, tokens, printer, self.definitions.selectable, runtime)
        openapi = OpenApi(self.cluster.registry, self.definitions.schema_of, self.definitions.is_published)
        documents = Documents(self.cluster.registry, openapi)
        self._documents = documents
        self._admin = Admin(clock, endpoints, self.controllers, self.definitions)
        return ApiServerApp(self.cluster, tokens, documents, endpoints, self._admin)

    def _run_pods(self, closing: AsyncExitStack, tokens: Tokens) -> Processes:
        """Return what runs Pods as processes, beside the proxy to their Services."""
        proxy = ServiceProxy(self.cluster.list)
        closing.push_async_callback(proxy.close)
        # Kept, or the task could be collected before it has run.
        self._starting_proxy = asyncio.ensure_future(proxy.start())
        self.proxy_url = f"http://{proxy.address}"
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="gitsync-pods-")))
        folders = Folders(folder, (self._data or folder) / "claims")

        def issue(namespace: str, name: str, asked: TokenAsked) -> str:
            account = self.cluster.get("", "ServiceAccount", namespace, name)
            if account is None:
                return ""
            now = int(self.cluster.clock.now())
            of = ServiceAccount(namespace, name, account["metadata"]["uid"])
            return tokens.issue(of, [asked.audience or AUDIENCE], now + asked.seconds, now)

        api = ApiAccess(lambda: self.tls_url, issue, self.cluster.clock.call_later)
        runtime = Processes(self._images, folders, proxy.address, self.cluster.get, api)
        closing.callback(runtime.close)
        return runtime

    def _ask_to_stop(self) -> None:
        loop = self._loop
        stopping = self._stopping
        if loop is not None and stopping is not None:
            loop.call_soon_threadsafe(stopping.set)


@functools.cache
def _process_certificate() -> Certificate:
    """Return the certificate that the sandboxes in memory of this process share."""
    return make_certificate()


def _kept_certificate(journal: SqliteJournal) -> Certificate:
    """Return the certificate kept in the journal, so that a kubeconfig stays good over restarts."""
    kept = journal.secret("certificate", "")
    if not kept:
        fresh = _process_certificate()
        journal.replace_secret("certificate", orjson.dumps(dataclasses.asdict(fresh)).decode())
        return fresh
    return Certificate(**orjson.loads(kept))


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: sandbox
clusters:
- name: sandbox
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: sandbox
  context:
    cluster: sandbox
    user: sandbox-admin
users:
- name: sandbox-admin
  user:
    token: {token}
"""
