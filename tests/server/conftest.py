"""A dashboard over a static fake engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gitsync.ports import ApplicationView
from gitsync.server.auth.access import Access
from tests.asgi_server import Answer, Served, serve
from tests.replicas import ARE_TWO, still_dashboard
from tests.server.fakes import FORM, StillEngine, access_of, engine
from tools.format_templates import BLOCK


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
        return _shown(self.web.ask(path, headers={name.replace("_", "-"): text for name, text in headers.items()}))

    def post(self, path: str, fields: dict[str, Any] | None = None, **headers: str) -> Answer:
        """Send a form as a page of ours would."""
        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.web.url,
            "Cookie": self.form_cookie,
            **headers,
        }
        body = urlencode({"token": FORM, **(fields or {})}, doseq=True).encode()
        return _shown(self.web.ask(path, method="POST", body=body, headers=sent))


_BESIDE_BLOCKS = re.compile(rf"\n?(</?(?:{BLOCK.pattern})\b[^>]*>)\n?")


def _shown(answer: Answer) -> Answer:
    """
    Return an answer without what a browser does not show: line breaks of templates beside block-level elements, and the
    marks where a word may break.
    """
    return replace(answer, text=_BESIDE_BLOCKS.sub(r"\1", answer.text).replace("<wbr>", ""))


Open = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Open]:
    """Return what opens a dashboard over some views."""
    with ExitStack() as stack:

        def opens(
            views: Iterable[ApplicationView] = (),
            *,
            webhook_secret: str = "",
            audit_secret: str = "",
            are_two: bool = ARE_TWO,
            **access: Any,
        ) -> Site:
            still = engine(tmp_path, views)
            stack.callback(still.records.close)
            signs_in = access_of(**access)
            made = still_dashboard(
                still, signs_in, are_two=are_two, webhook_secret=webhook_secret, audit_secret=audit_secret
            )
            return Site(stack.enter_context(serve(made)), still, signs_in)

        yield opens
