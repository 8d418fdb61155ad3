"""Time the pages of a dashboard of 1,000 Applications and 10,000 objects, and the delay of its live events."""

from __future__ import annotations

import gzip
import re
import socket
import statistics
import threading
import time

from bench._large_dashboard import large_dashboard
from gitsync.server.templates import web_folder
from tests.asgi_server import Served
from tests.server.fakes import StillEngine

PAGES = (
    "/",
    "/apps",
    "/apps?q=app-49",
    "/objects",
    "/objects?q=is:different",
    "/changes",
    "/drift",
    "/approvals",
    "/audit",
    "/search?q=thing-7",
    "/wall",
    "/apps/gitsync/app-1",
    "/apps/gitsync/app-1?view=tree",
    "/apps/gitsync/app-0/plan",
    "/apps/gitsync/app-1/diff",
    "/apps/gitsync/app-1/history",
    "/api/v1/objects",
)
ROUNDS, CLIENTS, EVENTS = 40, 200, 20
_START = 2.0
"""Seconds in which all clients connect."""


def main() -> None:
    """Print the figures of each page, of the assets, and of live events."""
    with large_dashboard() as (web, still):
        for path in PAGES:
            print(f"{path}: {measure(web, path)}", flush=True)
        for suffix in ("js", "css"):
            files = sorted((web_folder() / "static").glob(f"*.{suffix}"))
            print(f"{suffix}: {sum(len(gzip.compress(file.read_bytes(), 5)) for file in files)} bytes compressed")
        print(f"live event with {CLIENTS} clients: {live_delay(web, still)}")


def measure(web: Served, path: str) -> str:
    """Return the times over the wire, the size of the compressed page, and its number of elements."""
    text = web.ask(path).text
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        web.ask(path)
        times.append((time.perf_counter() - begun) * 1000)
    median, slow = statistics.median(times), sorted(times)[int(ROUNDS * 0.95)]
    size, elements = len(gzip.compress(text.encode(), 5)), len(re.findall(r"<[a-z]", text))
    return f"p50 {median:.1f} ms, p95 {slow:.1f} ms, {size} bytes compressed, {elements} elements"


def live_delay(web: Served, still: StillEngine) -> str:
    """Return how long after a change each of many clients has its event."""
    delays: list[float] = []
    changed_at: dict[int, float] = {}
    clients = [threading.Thread(target=_listen, args=(web, changed_at, delays)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(_START)
    for number in range(1, EVENTS + 1):
        changed_at[number] = time.perf_counter()
        still.view.happen(f"gitsync/app-{number}")
        time.sleep(0.3)
    for client in clients:
        client.join()
    delays.sort()
    p50, p95, p99 = (delays[int(len(delays) * share)] * 1000 for share in (0.5, 0.95, 0.99))
    return f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms, {len(delays)} events"


def _listen(web: Served, changed_at: dict[int, float], delays: list[float]) -> None:
    """Read events until the last one, and add the delay of each."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(f"GET /live HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        with connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b"id: "):
                    number = int(line[4:])
                    delays.append(time.perf_counter() - changed_at[number])
                    if number == EVENTS:
                        return


if __name__ == "__main__":
    main()
