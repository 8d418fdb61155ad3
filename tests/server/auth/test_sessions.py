"""The sessions of a user: listed, and ended at every replica."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI

from gitsync.errors import RecordUnavailable
from gitsync.objects.user import BrowserSession
from gitsync.record.database import RecordDatabase
from gitsync.record.shared import SqlSessions
from gitsync.record.tables import SESSIONS
from gitsync.server import live
from gitsync.server.auth import sessions as module
from gitsync.server.auth.access import Proxy
from gitsync.server.auth.sessions import MemorySessions, Session, Sessions, browser_of, stored_id
from gitsync.server.auth.users import Users, add
from tests.asgi_server import serve
from tests.server.conftest import Open, Site
from tests.server.fakes import StillView, application

TOKEN = "a token that people share"
KEY = "the key of all replicas"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CHROME = (
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36"
)
SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.4 Safari/605.1.15"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database that replicas share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/shared.db"
        return
    yield (server := str(request.getfixturevalue("postgres_url")))
    database = RecordDatabase(server)
    with database.writing() as connection:
        SESSIONS.drop(connection)
    database.close()


@pytest.fixture
def replicas(site: Open, url: str) -> Iterator[tuple[Site, Site]]:
    """Return two dashboards, each with a connection of its own to one database."""
    with ExitStack() as stack:
        opened = []
        for _ in range(2):
            database = RecordDatabase(url)
            stack.callback(database.close)
            sessions = Sessions(KEY, store=SqlSessions(database))
            opened.append(site([application()], are_two=False, token=TOKEN, sessions=sessions))
        yield opened[0], opened[1]


def sign_in(opened: Site, agent: str = FIREFOX, secret: str = TOKEN, **headers: str) -> str:
    """Return the value of the cookie of a browser that signs in."""
    answer = opened.post("/sign-in", {"secret": secret}, **{"User-Agent": agent, **headers})
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2]


def cookies(opened: Site, session: str) -> dict[str, str]:
    """Return what the browser of a session sends to a dashboard."""
    return {"Cookie": f"{opened.form_cookie}; gitsync-session-{opened.port}={session}"}


def listed(page: str) -> list[tuple[str, str, bool]]:
    """Return id, browser and whether it is this one, of the sessions that a page lists."""
    rows = re.findall(r'<tr data-row="([0-9a-f]{64})">.*?<td>\s*(.*?)</td>', page, re.DOTALL)
    return [(id, cell.partition("<")[0].strip(), "this browser" in cell) for id, cell in rows]


def test_a_session_that_was_ended_is_refused_at_once_by_every_replica(replicas: tuple[Site, Site]) -> None:
    first, second = replicas
    laptop, phone = sign_in(first), sign_in(second, CHROME)
    for opened in replicas:
        for session in (laptop, phone):
            assert opened.get("/apps", **cookies(opened, session)).status == 200
    rows = listed(second.get("/settings", **cookies(second, laptop)).text)
    assert [row[1:] for row in rows] == [("Chrome 130 on Android", False), ("Firefox 145 on Linux", True)]
    answer = second.post("/sign-out/sessions", {"session": rows[0][0]}, **cookies(second, laptop))
    assert (answer.status, answer.headers["location"]) == (303, "/settings#sessions")
    for opened in replicas:
        assert opened.get("/apps", **cookies(opened, phone)).status == 401
        assert opened.get("/apps", **cookies(opened, laptop)).status == 200


@pytest.mark.parametrize(
    ("chosen", "location", "statuses"),
    [("others", "/settings#sessions", [200, 401, 401]), ("all", "/sign-in", [401, 401, 401])],
)
def test_all_sessions_are_ended_with_or_without_this_one(
    replicas: tuple[Site, Site], chosen: str, location: str, statuses: list[int]
) -> None:
    first, second = replicas
    own, *_ = browsers = [sign_in(opened) for opened in (first, second, second)]
    answer = first.post("/sign-out/sessions", {"session": chosen}, **cookies(first, own))
    assert answer.headers["location"] == location
    for opened in replicas:
        assert [opened.get("/apps", **cookies(opened, browser)).status for browser in browsers] == statuses


def test_a_sign_out_is_known_to_every_replica(replicas: tuple[Site, Site]) -> None:
    first, second = replicas
    session = sign_in(first)
    assert second.get("/apps", **cookies(second, session)).status == 200
    first.post("/sign-out", **cookies(first, session))
    assert second.get("/apps", **cookies(second, session)).status == 401


def test_the_database_has_nothing_from_which_a_cookie_is_made(replicas: tuple[Site, Site], url: str) -> None:
    opened = replicas[0]
    cookie = sign_in(opened)
    content = opened.access.sessions.open(cookie, 60)
    assert content is not None
    database = RecordDatabase(url)
    with database.reading() as connection:
        (row,) = connection.execute(SESSIONS.select()).mappings()
    database.close()
    text = " ".join(map(str, row.values()))
    assert row["id"] == stored_id(Session(id=content["id"]))
    assert not [secret for secret in (content["id"], content["token"], cookie) if secret in text]


def test_users_neither_see_nor_end_the_sessions_of_others(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    ada, eve = add(file, "ada", []), add(file, "eve", [])
    opened = site([application()], users=Users(file), token=TOKEN)
    of_ada, of_eve, shared = (sign_in(opened, secret=secret) for secret in (ada, eve, TOKEN))
    ids = {name: listed(opened.get("/settings", **cookies(opened, name)).text) for name in (of_ada, of_eve, shared)}
    assert [len(rows) for rows in ids.values()] == [1, 1, 1]
    victim = ids[of_ada][0][0]
    for session in (victim, "all"):
        opened.post("/sign-out/sessions", {"session": session}, **cookies(opened, of_eve))
    opened.post("/sign-out/sessions", {"session": "all"}, **cookies(opened, shared))
    assert opened.get("/apps", **cookies(opened, of_ada)).status == 200
    assert opened.get("/apps", **cookies(opened, of_eve)).status == 401


def test_a_form_of_another_site_ends_nothing(site: Open) -> None:
    opened = site([application()], token=TOKEN)
    session = sign_in(opened)
    forged = {**cookies(opened, session), "Origin": "https://evil.example"}
    assert opened.post("/sign-out/sessions", {"session": "all"}, **forged).status == 403
    assert (
        opened.post("/sign-out/sessions", {"session": "all", "token": "x" * 43}, **cookies(opened, session)).status
        == 403
    )
    assert opened.get("/apps", **cookies(opened, session)).status == 200


def test_the_end_of_sessions_is_in_the_audit(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    ada = add(file, "ada", [])
    opened = site([application()], users=Users(file), token=TOKEN)
    laptop = sign_in(opened, secret=ada)
    sign_in(opened, CHROME, secret=ada)
    # of the second request no session is left to end
    for _ in range(2):
        opened.post("/sign-out/sessions", {"session": "others"}, **cookies(opened, laptop))
    (link,) = (link for link in opened.engine.records.audit_records() if link.action == "sign-out")
    assert link.approver == "ada"
    assert link.reasoning.startswith("Chrome 130 on Android since 20")
    assert "Sessions ended" in opened.get("/changes?q=kind:sign-out", **cookies(opened, laptop)).text


def test_sessions_are_ended_on_a_read_only_dashboard_too(site: Open) -> None:
    opened = site([application()], token=TOKEN, read_only=True)
    session = sign_in(opened)
    assert "End all" in opened.get("/settings", **cookies(opened, session)).text
    assert opened.post("/sign-out/sessions", {"session": "all"}, **cookies(opened, session)).status == 303
    assert opened.get("/apps", **cookies(opened, session)).status == 401


def test_the_page_says_from_where_and_escapes_what_a_client_said(site: Open) -> None:
    opened = site([application()], token=TOKEN, proxy=Proxy.parse("127.0.0.1", names_users=False))
    session = sign_in(opened, '<img src="x">', **{"X-Forwarded-For": "192.0.2.7"})
    page = opened.get("/settings", **cookies(opened, session)).text
    assert "192.0.2.7" in page
    assert "&lt;img src=&#34;x&#34;&gt;" in page
    assert "the browsers of everyone who signed in with the shared token" in page


def test_without_a_sign_in_there_are_no_sessions(site: Open) -> None:
    assert 'id="sessions"' not in site([application()]).get("/settings").text


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox 145 on Linux"),
        (CHROME, "Chrome 130 on Android"),
        (SAFARI, "Safari 17 on macOS"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0",
            "Edge 131 on Windows",
        ),
        ("curl/8.14.1", "curl/8.14.1"),
        ("", ""),
        ("x\x00y" + "z" * 200, "xy" + "z" * 98),
    ],
)
def test_a_browser_is_named_by_what_it_says(agent: str, name: str) -> None:
    assert browser_of(agent) == name


class Failing(MemorySessions):
    """A store whose database may be away."""

    is_away = False
    lookups = 0

    def start(self, session: BrowserSession) -> None:
        if self.is_away:
            raise RecordUnavailable("the history database cannot be used")
        super().start(session)

    def is_open(self, id: str) -> bool:
        self.lookups += 1
        if self.is_away:
            raise RecordUnavailable("the history database cannot be used")
        return super().is_open(id)


def test_while_the_database_fails_sessions_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Failing()
    first, second = Sessions(KEY, store=store), Sessions(KEY, store=store)
    known = first.issue(Session(name="ada"), "ada")
    store.is_away = True
    assert first.read(known) == first.read(known) is not None
    assert store.lookups == 1, "a database that failed is not asked at each request"
    assert second.read(known) is None, "what a process has not seen is refused"
    meanwhile = first.issue(Session(name="eve"), "eve")
    assert first.read(meanwhile) is not None
    store.is_away = False
    monkeypatch.setattr(module.time, "monotonic", lambda: first._failing_until)
    assert first.read(known) is not None
    assert first.read(meanwhile) is None, "it is not in the store"


def test_an_expired_session_is_not_listed() -> None:
    now = [1000.0]
    sessions = Sessions(KEY, 60, lambda: now[0])
    sessions.issue(Session(name="ada"), "ada")
    assert [session.ends.timestamp() for session in sessions.of("ada")] == [1060]
    now[0] += 60
    assert sessions.of("ada") == ()


def test_a_stream_of_events_ends_with_its_session() -> None:
    may_stay = threading.Event()
    may_stay.set()
    app = FastAPI()
    view = StillView({})
    app.include_router(live.router(view, lambda _: view, lambda _: may_stay.is_set(), heartbeat=0.05))
    with (
        serve(app) as web,
        socket.create_connection((web.url.split("/")[2].split(":")[0], int(web.url.rpartition(":")[2]))) as client,
    ):
        client.settimeout(60)
        client.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        text = b""
        while text.count(b": still here") < 2:
            text += client.recv(65536)
        may_stay.clear()
        while part := client.recv(65536):
            text += part
        assert text.endswith(b"0\r\n\r\n")
