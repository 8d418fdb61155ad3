"""What was asked of a sandbox: counts by verb, resource, user and user agent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One way of asking; ``resource`` is as messages name it (``deployments.apps``), or a path."""

    verb: str
    resource: str
    user: str
    agent: str


class RequestLog:
    """Count requests, so that a test can show that none was made."""

    def __init__(self) -> None:
        self._counts: Counter[Asked] = Counter()

    def record(self, asked: Asked) -> None:
        """Count one request."""
        self._counts[asked] += 1

    def count(self, *, verb: str = "", resource: str = "", user: str = "", agent: str = "") -> int:
        """Return how many requests fit; what is empty fits all, ``agent`` is a part of the user agent."""
        return sum(
            number
            for asked, number in self._counts.items()
            if verb in ("", asked.verb)
            and resource in ("", asked.resource)
            and user in ("", asked.user)
            and agent in asked.agent
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Return the counts, the largest first."""
        return [
            {
                "verb": asked.verb,
                "resource": asked.resource,
                "user": asked.user,
                "userAgent": asked.agent,
                "count": number,
            }
            for asked, number in self._counts.most_common()
        ]

    def reset(self) -> None:
        """Begin at nothing."""
        self._counts.clear()
