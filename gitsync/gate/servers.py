"""External servers that Applications may use: the operator's Prometheus and reasoners."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.urls import matches_url


def server_violations(policy: Policy, app: Application, prometheus: str) -> Iterator[str]:
    """Yield which servers an Application uses that its policy does not allow; ``prometheus`` is the operator's URL."""
    if app.openai is not None and not allows_server(policy, app.openai.endpoint):
        yield f"spec.reasoner.openAI.endpoint: {app.openai.endpoint} is not allowed by policy {policy.name}"
    if app.sync.limits:
        yield from query_violation(policy, prometheus)


def query_violation(policy: Policy, prometheus: str) -> Iterator[str]:
    """Yield that the operator's Prometheus may not be queried, where the policy does not allow it."""
    if prometheus and not allows_server(policy, prometheus):
        yield f"prometheusQuery: {prometheus} is not allowed by policy {policy.name}"


def allows_server(policy: Policy, url: str) -> bool:
    """Whether a policy allows a server; a pattern allows every path below it."""
    if policy.servers is None:
        return True
    return any(matches_url(pattern, url) or matches_url(f"{pattern.rstrip('/')}/*", url) for pattern in policy.servers)
