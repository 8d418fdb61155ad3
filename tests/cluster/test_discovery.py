"""Discovery is repeated for kinds that are not served, with growing delays."""

from __future__ import annotations

from gitsync.cluster.discovery import Discovery

CORE = {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": []}]}
EMPTY = {"kind": "APIGroupDiscoveryList", "items": [CORE]}


class CountingClient:
    """A client that serves no kind and counts the requests for groups."""

    def __init__(self) -> None:
        self.requests = 0

    def get(self, path: str, *, accept: str) -> dict[str, object]:
        self.requests += path == "/apis"
        return EMPTY


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_kind_that_is_never_served_costs_ever_fewer_requests() -> None:
    client, time = CountingClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    for second in range(600):
        time.now = float(second)
        assert discovery.resource("example.com", "v1", "Widget") is None
        assert discovery.resource("example.com", "v1", "Gadget") is None
    assert client.requests < 40


def test_a_changed_definition_repeats_it_at_once() -> None:
    client, time = CountingClient(), Time()
    discovery = Discovery(client, monotonic=time)  # type: ignore[arg-type]
    discovery.resource("example.com", "v1", "Widget")
    discovery.resource("example.com", "v1", "Widget")
    assert client.requests == 1
    discovery.forget()
    discovery.resource("example.com", "v1", "Widget")
    assert client.requests == 2
