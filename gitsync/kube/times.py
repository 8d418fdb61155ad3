"""Times as Kubernetes writes them: RFC 3339, in UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str | None) -> float:
    """Return an RFC 3339 time as seconds since the epoch; 0 where absent."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
