"""Render a template for a request, with what every page needs."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gitsync.server.assets import fingerprint, web_folder
from gitsync.server.engine import Engine
from gitsync.server.security import form_token, keep_token
from gitsync.server.text import age, visible


class Pages:
    """The templates, with autoescape on; every text from outside goes through ``visible`` first."""

    def __init__(self, engine: Engine, *, read_only: bool) -> None:
        self.engine = engine
        self._read_only = read_only
        self._templates = Environment(
            loader=FileSystemLoader(web_folder() / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["visible"] = visible
        self._templates.filters["age"] = lambda since: age(since, engine.clock.now())
        self._templates.globals["static"] = lambda name: f"/static/{name}?v={fingerprint(name)}"

    def show(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page."""
        _, newest = self.engine.view.bounds
        page = self._templates.get_template(template).render(
            token=form_token(request),
            read_only=self._read_only,
            path=request.url.path,
            last_event=newest,
            **context,
        )
        response = HTMLResponse(page, status)
        keep_token(request, response)
        return response
