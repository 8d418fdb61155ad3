"""On loopback a link signs one browser in; any other client that reaches the port needs the token."""

from __future__ import annotations

from tests.server.conftest import Open
from tests.server.fakes import application

TOKEN = "t" * 43
PLAN = "/api/v1/applications/gitsync/shop/plan"


def test_the_link_signs_one_browser_in_once(site: Open) -> None:
    opened = site([application()], token=TOKEN, is_local=True)
    link = opened.access.link
    first = opened.get(link)
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    session = cookie.partition(";")[0]
    assert opened.get("/", Cookie=session).status == 200
    assert opened.get(PLAN, Cookie=session).status == 200

    again = opened.get(link, Accept="text/html")
    assert (again.status, "set-cookie" in again.headers) == (303, False)
    assert again.headers["location"].startswith("/sign-in")


def test_pages_and_the_api_require_the_session_or_the_token(site: Open) -> None:
    opened = site([application()], token=TOKEN, is_local=True)
    for path in ("/", PLAN, "/live", "/api/v1/openapi.json"):
        assert opened.get(path).status == 401
    assert opened.get("/?token=wrong").status == 401
    assert opened.get("/?token=").status == 401
    assert opened.get(PLAN, Authorization=f"Bearer {TOKEN}").status == 200
    assert opened.get("/healthz").status == 200
    assert "dashboard.token" in opened.get("/sign-in").text


def test_the_name_of_another_site_is_refused_also_with_a_session(site: Open) -> None:
    opened = site([application()], token=TOKEN, is_local=True)
    session = opened.post("/sign-in", {"secret": TOKEN}).headers["set-cookie"].partition(";")[0]
    assert opened.get("/", Cookie=session, Host="evil.example").status == 421
    assert opened.get(opened.access.link, Host="evil.example").status == 421
    assert opened.get("/", Cookie=session, Host=f"localhost:{opened.port}").status == 200


def test_where_users_sign_in_there_is_no_link(site: Open) -> None:
    opened = site([application()], token=TOKEN)
    assert opened.access.link == ""
    assert opened.get("/?token=").status == 401
