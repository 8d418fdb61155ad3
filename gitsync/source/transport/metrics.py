"""Metrics of requests to Git servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import Counter

from gitsync.objects.urls import SCP

_REQUESTS = Counter("gitsync_git_requests", "Requests to Git servers", ["host", "operation", "outcome"])
_OPERATIONS = ("ls-remote", "fetch", "push")


def host_of(url: str) -> str:
    """Return the host of a URL in small letters, ``file`` where it has none; without user, password and path."""
    short = SCP.fullmatch(url)
    host = short["host"] if short else urlsplit(url).hostname
    return (host or "file").lower()


@contextmanager
def counted(url: str, arguments: Sequence[str]) -> Iterator[None]:
    """Count a run of git by its arguments, as failed where it raises."""
    operation = next(argument for argument in arguments if argument in _OPERATIONS)
    try:
        yield
    except BaseException:
        _REQUESTS.labels(host_of(url), operation, "Failed").inc()
        raise
    _REQUESTS.labels(host_of(url), operation, "Succeeded").inc()
