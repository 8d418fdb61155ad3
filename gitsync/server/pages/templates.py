"""Render a template for a request, with what every page needs."""

from __future__ import annotations

from copy import copy
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gitsync.objects.user import User
from gitsync.server.assets import fingerprint, web_folder
from gitsync.server.auth.access import Access, current_user
from gitsync.server.auth.security import form_token, keep_token
from gitsync.server.backend import Backend
from gitsync.server.formatting import age, app_url, duration, iso, short_revision, utc, visible
from gitsync.server.notices import drop_notice, take_notice
from gitsync.server.pending import awaiting_decision
from gitsync.server.rows.words import KINDS, TRIGGERS, sentence, words
from gitsync.server.visibility import visible_to


class Pages:
    """The templates, with autoescape on; every text from outside goes through ``visible`` first."""

    def __init__(self, engine: Backend, access: Access) -> None:
        self.engine = engine
        self._access = access
        self._templates = Environment(
            loader=FileSystemLoader(web_folder() / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["visible"] = visible
        self._templates.filters["app_url"] = app_url
        self._templates.filters["duration"] = duration
        self._templates.filters["age"] = lambda since: age(since, engine.clock.now())
        self._templates.filters["iso"] = iso
        self._templates.filters["utc"] = utc
        self._templates.filters["short_revision"] = short_revision
        self._templates.filters["words"] = words
        self._templates.filters["sentence"] = sentence
        self._templates.filters["kind_words"] = lambda name: KINDS.get(name, name)
        self._templates.filters["trigger"] = lambda name: TRIGGERS.get(name, name)
        self._templates.globals["static"] = lambda name: f"/static/{name}?v={fingerprint(name)}"

    def seen_by(self, user: User) -> Pages:
        """Return the templates over what a user may see."""
        seen = copy(self)
        seen.engine = visible_to(self.engine, user)
        return seen

    def show(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page."""
        seen = visible_to(self.engine, current_user(request))
        _, newest = seen.view.bounds
        page = self._templates.get_template(template).render(
            token=form_token(request),
            read_only=self._access.is_read_only,
            has_sign_in=self._access.is_needed,
            person=current_user(request),
            path=request.url.path,
            last_event=newest,
            now=self.engine.clock.now(),
            waiting=len(awaiting_decision(seen.view.applications(), seen)),
            notice=take_notice(request),
            is_compact=request.cookies.get("gitsync-density") == "compact",
            **context,
        )
        response = HTMLResponse(page, status)
        drop_notice(request, response)
        keep_token(request, response)
        return response
