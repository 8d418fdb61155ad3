"""
Find templates and static files, and render a template for a request, with what every page needs.

The files are package data in an installed wheel, and ``web/`` in a checkout.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from copy import copy
from datetime import datetime, timedelta
from functools import cache
from os import PathLike, stat_result
from pathlib import Path, PurePath
from typing import Any, Final

import orjson
from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from starlette.types import Scope

from gitsync import __version__
from gitsync.errors import InvalidInput, RecordUnavailable, counted
from gitsync.files import shipped_folder
from gitsync.objects.change import Plan
from gitsync.objects.user import SavedView, User
from gitsync.ports import ViewStore
from gitsync.server.auth.access import Access, current_user, is_let_in
from gitsync.server.auth.security import form_token, keep_token
from gitsync.server.backend import Backend
from gitsync.server.formatting import (
    age,
    app_url,
    breakable,
    day_and_time,
    duration,
    iso,
    object_url,
    owner_name,
    short_revision,
    sync_url,
    utc,
    visible,
    yaml_parts,
)
from gitsync.server.queries.plans import ShownPlan
from gitsync.server.queries.waiting import all_holds, decisions_awaited
from gitsync.server.queries.words import KINDS, TRIGGERS, sentence, words
from gitsync.server.visibility import visible_to


def web_folder() -> Path:
    """Return the folder that holds ``templates`` and ``static``; raise InvalidInput when there is none."""
    folder = shipped_folder("web")
    if not (folder / "templates").is_dir():
        raise InvalidInput("the dashboard's templates are missing", hint="install gitsync again")
    return folder


@cache
def static_version() -> str:
    """
    Return the start of a hash of all static files, which is the folder in their URLs.

    It is one for all, as the modules of the script name each other by relative URLs.
    """
    digest = hashlib.sha256()
    # a folder lists its files in any order: replicas have to agree on one version
    for file in sorted((web_folder() / "static").iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def static_url(name: str) -> str:
    """Return the URL of a static file, which may be cached for ever."""
    return f"/static/{static_version()}/{name}"


class Assets(StaticFiles):
    """The static files: kept for ever where the URL names the version of all, asked for again otherwise."""

    def lookup_path(self, path: str) -> tuple[str, stat_result | None]:
        """Return the file of a path, which may begin with a version: a page of an earlier one still finds its files."""
        # the last part alone: the folder is flat, and every version is answered with the files of now
        return super().lookup_path(PurePath(path).name)

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file with how long it may be kept."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        # under another version the content is not that of the URL: a cache would keep the wrong one
        is_current = static_version() in PurePath(scope["path"]).parts
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_current else "no-cache"
        return response


_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)


class UnindentedLoader(FileSystemLoader):
    """Load templates without indentation, which would be sent with every page, and shown in inline text."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return the source of a template; its lines keep their numbers."""
        source, file, is_current = super().get_source(environment, template)
        return self.without_indentation(source), file, is_current

    @staticmethod
    def without_indentation(source: str) -> str:
        """Return a template without the indentation of its lines."""
        return _INDENTATION.sub("", source)


class CompiledTemplates(BytecodeCache):
    """What templates were compiled to, in memory: further dashboards of this process read it."""

    def __init__(self) -> None:
        self._code_of: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill a bucket that was filled before; Jinja compares the checksum of the source."""
        if bucket.key in self._code_of:
            bucket.bytecode_from_string(self._code_of[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what a bucket contains."""
        self._code_of[bucket.key] = bucket.bytecode_to_string()


_COMPILED = CompiledTemplates()


def _from_now(seconds: float, now: datetime) -> str:
    return day_and_time(now + timedelta(seconds=seconds), now)


class Pages:
    """The templates, with autoescape on; every text from outside goes through ``visible`` first."""

    def __init__(self, engine: Backend, access: Access) -> None:
        self.engine = engine
        self._newest_event: int | None = None
        self._access = access
        self.replica = secrets.token_hex(4)
        """What tells the pages of one process from those of another one behind the same address."""
        self._templates = Environment(
            loader=UnindentedLoader(web_folder() / "templates"),
            bytecode_cache=_COMPILED,
            autoescape=True,
            # a misspelt name fails in a test, instead of showing nothing
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["visible"] = visible
        self._templates.filters["breakable"] = breakable
        self._templates.filters["app_url"] = app_url
        self._templates.filters["owner_name"] = owner_name
        self._templates.globals["sync_url"] = sync_url
        self._templates.globals["object_url"] = object_url
        self._templates.filters["duration"] = duration
        self._templates.filters["age"] = lambda since: age(since, engine.clock.now())
        self._templates.filters["from_now"] = lambda seconds: _from_now(seconds, engine.clock.now())
        self._templates.filters["iso"] = iso
        self._templates.filters["utc"] = utc
        self._templates.filters["short_revision"] = short_revision
        self._templates.filters["yaml_parts"] = yaml_parts
        self._templates.filters["counted"] = counted
        self._templates.filters["words"] = words
        self._templates.filters["sentence"] = sentence
        self._templates.filters["kind_words"] = lambda name: KINDS.get(name, name)
        self._templates.filters["trigger"] = lambda name: TRIGGERS.get(name, name)
        self._templates.globals["shown_plan"] = self._sealed_plan
        self._templates.globals["static"] = static_url
        self._templates.globals["version"] = __version__

    def _sealed_plan(self, plan: Plan) -> str:
        return self._access.sessions.seal({"plan": ShownPlan.of(plan).dump()})

    def opened_plan(self, text: str) -> ShownPlan | None:
        """Return the plan that a form of any replica was about, None for another text and for one of many steps."""
        content = self._access.sessions.open(text, _SHOWN_SECONDS)
        return ShownPlan.load(content["plan"]) if content is not None and "plan" in content else None

    def seen_by(self, user: User) -> Pages:
        """Return the templates over what a user may see."""
        # shallow: the templates are shared, only the engine is another one
        pages = copy(self)
        pages.engine = visible_to(self.engine, user)
        # before the first row is read: what happens in between reaches the page as an event, perhaps a second time
        pages._newest_event = pages.engine.view.bounds[1]
        return pages

    def show(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Return a page."""
        # also for pages of the whole engine, such as errors; for a filtered one it is the same
        backend = visible_to(self.engine, current_user(request))
        newest = self._newest_event if self._newest_event is not None else backend.view.bounds[1]
        page = self._templates.get_template(template).render(
            token=form_token(request),
            read_only=self._access.is_read_only,
            has_sign_in=self._access.is_needed,
            person=current_user(request),
            path=request.url.path,
            own_url=f"{request.url.path}?{request.url.query}".removesuffix("?"),
            # the answer of a form stays as it is: its address has another page, or none
            last_event=newest if request.method in ("GET", "HEAD") else None,
            replica=self.replica,
            now=self.engine.clock.now(),
            # the frame of the sign-in page is for everyone: without a viewer's rights nothing of the engine is in it
            is_let_in=is_let_in(request),
            waiting=decisions_awaited(backend) if is_let_in(request) else 0,
            holds=all_holds(backend) if is_let_in(request) else (),
            notice=take_notice(request),
            views=saved_views(request, self.engine.views) if request.url.path in (*LISTS, SETTINGS) else (),
            is_compact=request.cookies.get(DENSITY) == "compact",
            theme=chosen_theme(request),
            **context,
        )
        response = HTMLResponse(page, status)
        drop_notice(request, response)
        keep_token(request, response)
        return response


_SHOWN_SECONDS: Final = 7 * 86400.0
"""How old the page of a review may be to say what changed since."""
DENSITY: Final = "gitsync-density"
THEME: Final = "gitsync-theme"
"""Cookies of a browser for how pages look."""


def chosen_theme(request: Request) -> str:
    """Return the theme that a user chose, empty for that of the system."""
    theme = request.cookies.get(THEME, "")
    # by name: a cookie never brings text into a page
    return theme if theme in ("light", "dark") else ""


VIEWS: Final = "gitsync-views"
"""The cookie of the saved views of a browser whose user has no proven name."""
MOST_VIEWS: Final = 20
_VIEWS_LENGTH = 3500
"""Characters of the cookie: browsers keep 4,096 bytes."""
SETTINGS: Final = "/settings"
LISTS: Final = (
    *("/apps", "/objects", "/agents", "/agents/environments", "/changes", "/changes/compare", "/drift"),
    *("/drift/history", "/pulls"),
)
"""The pages whose filter may be saved."""


def saved_views(request: Request, store: ViewStore) -> tuple[SavedView, ...]:
    """Return the saved views of a user whose name is proven, and those of the browser that are not among them."""
    user = current_user(request)
    try:
        stored = store.of(user.name) if user.is_authenticated else ()
    except RecordUnavailable:
        # the page is more than its saved views
        stored = ()
    names = {(view.page, view.name) for view in stored}
    return (*stored, *(view for view in views_of_browser(request) if (view.page, view.name) not in names))


def views_of_browser(request: Request) -> tuple[SavedView, ...]:
    """Return the saved views of a browser, none of a cookie that is not ours."""
    try:
        items = orjson.loads(base64.urlsafe_b64decode(request.cookies.get(VIEWS, "") or "W10="))
        views = [SavedView(*map(str, item)) for item in items]
    except (ValueError, TypeError):
        return ()
    # a client can send any cookie: only filters of lists are links
    return tuple(view for view in views if view.page in LISTS)[:MOST_VIEWS]


def keep_views(response: Response, views: Iterable[SavedView]) -> None:
    """Keep saved views in the browser. Raise InvalidInput where they are too many for a cookie."""
    kept = [(view.name, view.page, view.query) for view in views]
    value = base64.urlsafe_b64encode(orjson.dumps(kept)).decode()
    if len(kept) > MOST_VIEWS or len(value) > _VIEWS_LENGTH:
        raise InvalidInput("the browser cannot keep more views", hint="delete some on the page Settings")
    response.set_cookie(VIEWS, value, max_age=_VIEWS_SECONDS, httponly=True, samesite="lax")


_VIEWS_SECONDS = 365 * 86400
_COOKIE = "gitsync-notice"
# a page that is opened later has nothing to do with the action
_SECONDS = 30

NOTICES: Final = {
    "sync": "Sync requested. The page shows its progress.",
    "suspend": "Suspend requested.",
    "resume": "Resume requested.",
    "hold": "The field is held: edit it now.",
    "unhold": "The hold has ended.",
    "revert": "Revert commit pushed. Clones get it by git pull --rebase, before their next push.",
    "revert-branch": "Revert commit pushed to a branch of its own. It changes nothing before it is merged.",
    "restart": "Restarted. Its Pods are replaced one after another.",
    "sync-objects": "Sync of the chosen objects requested.",
    "delete-pod": "Deleted. Its controller creates another Pod.",
    "approve": "Plan approved.",
    "approve-selected": "The selected steps are approved. The others become a plan of their own.",
    "reject": "Plan rejected.",
    "save-view": "View saved. It is above its list, and in the settings.",
    "keep": "Proposed to Git, on a branch of its own. It changes nothing before it is merged: see Pull requests.",
}


def leave_notice(response: Response, action: str) -> None:
    """Make the next page say that an action was requested."""
    response.set_cookie(_COOKIE, action, max_age=_SECONDS, httponly=True, samesite="strict")


def take_notice(request: Request) -> str:
    """Return the notice of the page that a request asks for, empty when there is none."""
    # by name: a cookie never brings text into a page
    return NOTICES.get(request.cookies.get(_COOKIE, ""), "")


def drop_notice(request: Request, response: Response) -> None:
    """Remove the notice: the page of this response shows it."""
    if _COOKIE in request.cookies:
        response.delete_cookie(_COOKIE, httponly=True, samesite="strict")
