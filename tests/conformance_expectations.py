"""Recorded cases that gitsync answers otherwise on purpose, with the reasons; one that agrees again is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

EXPECTED: dict[str, dict[str, str]] = {
    "apiserver": {
        "list-watch/accept": "answers are not written in protobuf; a client that prefers it gets JSON",
    },
    "health-messages": {
        "elasticsearch.k8s.elastic.co/Elasticsearch/unknown": "the recorded message names Argo CD's bug tracker",
    },
}
"""By the name of the line that ``make conformance`` prints: case and reason."""


def judged(suite: str, outcomes: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool, str]]:
    """Yield each case, whether its outcome is the expected one, and the reason of a difference or of a failure."""
    expected = dict(EXPECTED.get(suite, {}))
    for name, passed in outcomes:
        reason = expected.pop(name, "")
        if passed and reason:
            yield name, False, f"agrees now; remove it from the expected differences: {reason}"
        else:
            yield name, passed or bool(reason), reason
    for name, reason in expected.items():
        yield name, False, f"is not in the suite; remove it from the expected differences: {reason}"
