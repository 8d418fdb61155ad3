"""Answers of a dashboard that a command cannot use, each as one line with its fix."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gitsync.cli import dashboard as module
from gitsync.cli.dashboard import Dashboard
from gitsync.errors import ClusterUnavailable, Refused


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Dashboard]:
    """Return what makes a dashboard that answers every request in one way."""

    def make(status: int, body: bytes, token: str = "") -> Dashboard:
        monkeypatch.setattr(module, "request", lambda *arguments, **options: (status, body))
        return Dashboard("http://gitsync.example", token)

    return make


def test_a_page_instead_of_json_is_an_error(answering: Callable[..., Dashboard]) -> None:
    with pytest.raises(ClusterUnavailable, match="not JSON") as failed:
        answering(200, b"<html>Sign in to the proxy</html>").get("/api/v1/agents")
    assert "--server" in failed.value.hint


@pytest.mark.parametrize(("token", "message"), [("", "requires you to sign in"), ("old", "does not accept your token")])
def test_a_wrong_and_a_missing_token_are_told_apart(
    answering: Callable[..., Dashboard], token: str, message: str
) -> None:
    with pytest.raises(Refused, match=message) as failed:
        answering(401, b'{"detail": "sign in"}', token).get("/api/v1/agents")
    assert "--token-file" in failed.value.hint


@pytest.mark.parametrize(
    ("body", "message"),
    [(b'{"detail": "no such Application"}', "no such Application"), (b"<h1>Bad gateway</h1>", "Bad gateway")],
)
def test_the_message_of_an_error_is_that_of_the_server(
    answering: Callable[..., Dashboard], body: bytes, message: str
) -> None:
    with pytest.raises(Refused, match=message):
        answering(404, body).get("/api/v1/agents")
