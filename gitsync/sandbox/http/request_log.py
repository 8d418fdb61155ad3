"""Counts of the requests to a sandbox by verb, resource, user and user agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The attributes requests are counted by; ``resource`` is ``deployments.apps``, or a path."""

    verb: str
    resource: str
    user: str
    agent: str


class RequestLog:
    """Count requests, so that a test can show that none was made."""

    def __init__(self) -> None:
        self._counts: Counter[RequestKey] = Counter()

    def record(self, request: RequestKey) -> None:
        """Count one request."""
        self._counts[request] += 1

    def count(self, *, verb: str = "", resource: str = "", user: str = "", agent: str = "") -> int:
        """Return how many requests fit; what is empty fits all, ``agent`` is a part of the user agent."""
        return sum(
            number
            for request, number in self._counts.items()
            if verb in ("", request.verb)
            and resource in ("", request.resource)
            and user in ("", request.user)
            and agent in request.agent
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Return the counts, the largest first."""
        return [
            {
                "verb": request.verb,
                "resource": request.resource,
                "user": request.user,
                "userAgent": request.agent,
                "count": number,
            }
            for request, number in self._counts.most_common()
        ]

    def reset(self) -> None:
        """Begin at nothing."""
        self._counts.clear()
