"""
One healthy Application while others use Git servers that never answer: ``python -m bench.fairness``.

The seconds from push to live of the healthy one alone, beside Applications of one such server, and beside many such
servers with one Application each.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench._fleet import Fleet, fleet
from tests.flow.factories import config_map
from tests.waiting import until

HEALTHY = "healthy"
_RUNS = 9
_OF_ONE_SERVER = 20
_SERVERS = 50


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder)) as made, ExitStack() as servers:
        commit = made.repo.commit("first", {f"{HEALTHY}/o.yaml": config_map("o", value="first")})
        made.applications([HEALTHY], interval="1s")
        made.start()
        made.synced(1, commit)
        alone = measured(made)
        print(f"push to live, alone:                                    {figures(alone)}")
        one = servers.enter_context(silent_server("127.0.0.1"))
        for number in range(_OF_ONE_SERVER):
            made.application(f"waits-{number}", f"https://{one}/repository-{number}", "1s")
        show(made, f"{_OF_ONE_SERVER} Applications of a server that never answers", alone)
        for number in range(_SERVERS):
            host = servers.enter_context(silent_server(f"127.0.1.{number + 1}"))
            made.application(f"host-{number}", f"https://{host}/repository", "1s")
        show(made, f"{_SERVERS} more such servers", alone)


def show(made: Fleet, what: str, alone: list[float]) -> None:
    """Print the figures beside Applications that wait."""
    time.sleep(2.0)  # until their first queries wait
    times = measured(made)
    more = statistics.median(times) - statistics.median(alone)
    print(f"push to live, beside {what}: {figures(times)}, {more:+.2f} s", flush=True)


def measured(made: Fleet) -> list[float]:
    """Return the seconds from push to live of commits of the healthy Application."""
    return [push(made, f"{time.time()}") for _ in range(_RUNS)]


def push(made: Fleet, value: str) -> float:
    """Push another value and return the seconds until it is live."""
    made.repo.commit("change", {f"{HEALTHY}/o.yaml": config_map("o", value=value)})
    began = time.perf_counter()
    until(lambda: made.config(HEALTHY, "o") == {"value": value}, 60)
    return time.perf_counter() - began


def figures(times: list[float]) -> str:
    """Return the median and the maximum of seconds."""
    return f"median {statistics.median(times):.2f} s, maximum {max(times):.2f} s"


@contextmanager
def silent_server(address: str) -> Iterator[str]:
    """Yield host and port of a server that accepts connections and never answers."""
    with socket.create_server((address, 0), backlog=128) as server:
        yield f"{address}:{server.getsockname()[1]}"


if __name__ == "__main__":
    main()
