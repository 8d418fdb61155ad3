"""Metrics of requests to the API server: how many, how long, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Histogram

from gitsync.runtime.request_count import count_request

_LABELS = ["verb", "resource", "code"]
_REQUESTS = Counter("gitsync_api_requests", "Requests to the API server", _LABELS)
_DURATION = Histogram(
    "gitsync_api_request_duration_seconds",
    "Until an answer to a request began",
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
        group, rest = "", parts[2:]
    elif parts[0] == "apis":
        group, rest = parts[1] if len(parts) > 1 else "", parts[3:]
    else:
        return "openapi", True
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    if not rest:
        return "discovery", True
    resource = f"{rest[0]}.{group}" if group else rest[0]
    return (f"{resource}/{rest[2]}" if len(rest) > 2 else resource), len(rest) > 1
