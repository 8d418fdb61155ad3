"""A dashboard over a static fake engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gitsync.ports import ApplicationView
from gitsync.server.app import create_app
from gitsync.server.auth.access import Access
from tests.asgi_server import Answer, Served, serve
from tests.server.fakes import FORM, StillEngine, engine


@dataclass(slots=True)
class Site:
    """A dashboard, and the engine behind it."""

    web: Served
    engine: StillEngine
    access: Access

    @property
    def form_cookie(self) -> str:
        """The cookie of a browser that has loaded a page with a form."""
        return f"gitsync-form-{self.port}={FORM}"

    @property
    def port(self) -> str:
        return self.web.url.rpartition(":")[2]

    def get(self, path: str, **headers: str) -> Answer:
        return self.web.ask(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def post(self, path: str, fields: dict[str, Any] | None = None, **headers: str) -> Answer:
        """Send a form as a page of ours would."""
        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.web.url,
            "Cookie": self.form_cookie,
            **headers,
        }
        return self.web.ask(
            path, method="POST", body=urlencode({"token": FORM, **(fields or {})}, doseq=True).encode(), headers=sent
        )


Open = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Open]:
    """Return what opens a dashboard over some views."""
    with ExitStack() as stack:

        def opens(views: Iterable[ApplicationView] = (), *, webhook_secret: str = "", **access: Any) -> Site:
            still = engine(tmp_path, views)
            stack.callback(still.records.close)
            signs_in = Access(**access)
            made = create_app(still, signs_in, webhook_secret=webhook_secret)
            return Site(stack.enter_context(serve(made)), still, signs_in)

        yield opens
