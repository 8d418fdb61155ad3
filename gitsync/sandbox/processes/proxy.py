"""An HTTP proxy that reaches Services of the sandbox by name, as the DNS and network of a cluster would."""

from __future__ import annotations

import asyncio
import base64
import binascii
import itertools
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from gitsync.objects.manifest import Manifest, at

# Bytes of a request's head.
_MAX_HEAD = 64 * 1024
_CHUNK = 64 * 1024
# Headers for the proxy itself; the Pod's connection ends with this request.
_HIDDEN = (b"proxy-", b"connection:", b"keep-alive:")
List = Callable[[str, str, str, dict[str, str]], Iterable[Manifest]]
"""Lists objects: group, kind, namespace, labels."""


class ServiceProxy:
    """
    Forward HTTP requests and CONNECT tunnels: hosts that are Services to a ready Pod, others as they are.

    ``NAME.NAMESPACE``, with or without ``.svc`` and ``.svc.cluster.local``, names a Service. The user name of the proxy
    URL is the namespace of a name without one. It listens on loopback.
    """

    def __init__(self, objects: List) -> None:
        self._objects = objects
        # Bound before the server starts, so that the address is known to Pods that start first.
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._turns = itertools.count()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Future[None]] = set()
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Answer requests from now on."""
        self._server = await asyncio.start_server(self._accept, sock=self._socket, limit=_MAX_HEAD)

    async def close(self) -> None:
        """Accept no more requests, and end those that are open."""
        if self._server is None:
            self._socket.close()
            return
        self._server.close()
        await asyncio.sleep(0)  # connections that were accepted just before have a task then
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task, and close the connection with it: also when the task never began."""

        def close(task: asyncio.Future[None]) -> None:
            self._open.discard(task)
            writer.close()

        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await self._forward(head, reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _refuse(writer, f"the proxy of the sandbox failed: {error}")

    async def _forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to where the request goes and copy both directions; one request for each connection."""
        line, *headers = head[:-4].split(b"\r\n")
        method, target, version = line.split(b" ", 2)
        is_tunnel = method == b"CONNECT"
        url = urlsplit(f"//{target.decode()}" if is_tunnel else target.decode())
        host = url.hostname or ""
        port = url.port or 80
        destination = self._resolve(host, port, _namespace(headers))
        if destination is None:
            _refuse(writer, f"Service {host}:{port} has no ready Pod")
            return
        upstream, outgoing = await asyncio.open_connection(*destination)
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
                kept = [header for header in headers if not header.lower().startswith(_HIDDEN)]
                lines = [b" ".join((method, path.encode(), version)), *kept, b"Connection: close"]
                outgoing.write(b"\r\n".join(lines) + b"\r\n\r\n")
            await _copy_both(reader, writer, upstream, outgoing)
        finally:
            outgoing.close()

    def _resolve(self, host: str, port: int, namespace: str) -> tuple[str, int] | None:
        """Return the address and port behind a host: of a ready Pod for a Service, None where it has none."""
        name, _, rest = host.removesuffix(".cluster.local").removesuffix(".svc").partition(".")
        service = (rest or namespace) and "." not in rest and self._service(name, rest or namespace)
        if not service:
            return None if host.endswith((".svc", ".cluster.local")) else (host, port)
        ready = list(self._ready(service, port))
        return ready[next(self._turns) % len(ready)] if ready else None

    def _service(self, name: str, namespace: str) -> Manifest | None:
        services = self._objects("", "Service", namespace, {})
        return next((service for service in services if service["metadata"]["name"] == name), None)

    def _ready(self, service: Manifest, port: int) -> Iterable[tuple[str, int]]:
        """Yield the address and port of each ready Pod behind a port of a Service."""
        namespace = service["metadata"]["namespace"]
        name = service["metadata"]["name"]
        names = [
            port_of_service.get("name", "")
            for port_of_service in service["spec"].get("ports") or ()
            if port_of_service["port"] == port
        ]
        labels = {"kubernetes.io/service-name": name}
        for part in self._objects("discovery.k8s.io", "EndpointSlice", namespace, labels):
            numbers = [
                port_of_slice["port"]
                for port_of_slice in part.get("ports") or ()
                if port_of_slice.get("name", "") in names
            ]
            for endpoint in part.get("endpoints") or ():
                if numbers and at(endpoint, "conditions", "ready"):
                    yield endpoint["addresses"][0], numbers[0]


def _namespace(headers: list[bytes]) -> str:
    """Return the user name of the proxy URL."""
    for header in headers:
        name, _, value = header.decode("latin-1").partition(":")
        if name.lower() == "proxy-authorization":
            try:
                return base64.b64decode(value.split()[-1]).decode().partition(":")[0]
            except (binascii.Error, UnicodeDecodeError, IndexError):
                return ""
    return ""


def _refuse(writer: asyncio.StreamWriter, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)


async def _copy_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    upstream: asyncio.StreamReader,
    outgoing: asyncio.StreamWriter,
) -> None:
    """Copy until the server side ends; a client that only stops sending still gets its answer."""
    sending = asyncio.ensure_future(_copy(reader, outgoing))
    try:
        await _copy(upstream, writer)
    finally:
        sending.cancel()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        sink.write(chunk)
        await sink.drain()
