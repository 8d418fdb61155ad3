"""Time the pages of a dashboard of 10,000 objects in 500 applications, over HTTP."""

from __future__ import annotations

import gzip
import re
import statistics
import tempfile
import time
from pathlib import Path

from gitsync.objects.health import Health
from gitsync.server.app import create_app
from tests.asgi_server import Served, serve
from tests.server.fakes import application, changed, engine, resource

PAGES = (
    "/",
    "/apps",
    "/apps?q=app-49",
    "/apps/gitsync/app-1",
    "/apps/gitsync/app-1?view=tree",
    "/apps/gitsync/app-1/diff",
)
APPLICATIONS, OBJECTS, ROUNDS = 500, 20, 60


def main() -> None:
    """Print the figures of each page."""
    health = [Health.HEALTHY] * 9 + [Health.DEGRADED]
    views = [
        application(
            f"app-{number}",
            [
                resource(
                    f"thing-{number}-{i}", sync="OutOfSync" if i == 0 else "Synced", differences=(changed(),) * (i == 0)
                )
                for i in range(OBJECTS)
            ],
            health=health[number % 10].value,
        )
        for number in range(APPLICATIONS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        still = engine(Path(folder), views)
        with serve(create_app(still)) as web:
            for path in PAGES:
                print(f"{path}: {measure(web, path)}")
        still.records.close()


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


if __name__ == "__main__":
    main()
