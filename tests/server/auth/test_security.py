"""Who may look, who may ask, and what every answer carries."""

from __future__ import annotations

import re

import pytest

from gitsync.errors import InvalidInput
from gitsync.server.auth.access import Proxy
from gitsync.server.auth.sessions import MemorySessions, Sessions
from tests.server.conftest import Open, Site
from tests.server.fakes import application, resource

TOKEN = "a token that people share"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/apps/gitsync/shop", 200),
        *((f"/apps/gitsync/shop/{page}", 200) for page in ("plan", "diff", "history", "events", "policy", "suspend")),
        *(
            (f"/{page}", 200)
            for page in ("changes", "changes/compare", "objects", "drift", "search?q=a", "wall", "apps")
        ),
        *((f"/{page}", 200) for page in ("agents", "agents/environments", "approvals", "audit", "api/v1/objects")),
        ("/absent", 404),
        ("/apps/gitsync/absent", 404),
        ("/apps/gitsync/shop/sync", 200),
        ("/apps/gitsync/shop/sync/objects", 405),
        ("/apps/gitsync/shop?start=x", 422),
        ("/apps/gitsync/shop/revert", 500),  # this engine has no Git
        ("/static/style.css", 200),
        ("/static/absent.css", 404),
        ("/static/../templates/base.html", 404),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/audit.jsonl", 200),
        ("/webhook/github", 405),
    ],
)
def test_every_answer_carries_the_headers(site: Open, path: str, status: int) -> None:
    answer = site([application()]).get(path)
    headers = {name.lower(): text for name, text in answer.headers.items()}
    assert answer.status == status
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path == "/static/style.css" else "no-store")
    assert "Traceback" not in answer.text


def test_a_page_that_failed_has_the_layout_and_the_id_of_its_log(site: Open) -> None:
    text = site([application()]).get("/apps/gitsync/shop/revert").text
    assert '<nav aria-label="Main"' in text
    assert re.search(r"Its log has the details under [0-9a-f]{8}; try again", text)


def test_static_files_are_kept_for_ever_under_the_name_of_their_content(site: Open) -> None:
    opened = site()
    page = opened.get("/").text
    name = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    assert opened.get(name).headers["cache-control"] == "public, max-age=31536000, immutable"
    script = page.partition('<script type="module" src="')[2].partition('"')[0]
    folder = script.rpartition("/")[0]
    modules = re.findall(r'import "\./([a-z]+\.js)"', opened.get(script).text)
    assert len(modules) > 4
    for module in modules:
        assert f'rel="modulepreload" href="{folder}/{module}"' in page
        assert opened.get(f"{folder}/{module}").headers["cache-control"] == "public, max-age=31536000, immutable"
    assert opened.get("/static/other/style.css").headers["cache-control"] == "no-cache"
    assert opened.get("/static/other/..%2f..%2fpyproject.toml").status == 404


def test_pages_are_compressed_for_who_can_read_it(site: Open) -> None:
    connection = site([application(resources=[resource(f"r{i}") for i in range(50)])])
    assert "content-encoding" not in connection.get("/apps/gitsync/shop").headers
    plain = len(connection.get("/apps/gitsync/shop").text)
    import urllib.request

    request = urllib.request.Request(f"{connection.web.url}/apps/gitsync/shop", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.read()) < plain / 3


def test_with_a_token_people_sign_in_once(site: Open) -> None:
    opened = site([application()], token=TOKEN)
    sent_away = opened.get("/apps?q=shop", Accept="text/html")
    assert sent_away.status == 303
    assert sent_away.headers["location"] == "/sign-in?next=%2Fapps%3Fq%3Dshop"
    assert opened.get("/apps").status == 401
    assert opened.get("/live").status == 401
    assert opened.get("/audit.jsonl").status == 401
    assert opened.post("/sign-in", {"secret": "wrong", "next": "/"}).status == 401
    signed_in = opened.post("/sign-in", {"secret": TOKEN, "next": "/apps?q=shop"})
    assert (signed_in.status, signed_in.headers["location"]) == (303, "/apps?q=shop")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert opened.get("/apps", Cookie=cookie.partition(";")[0]).status == 200
    assert opened.get("/apps", Cookie=f"gitsync-session-{opened.port}=forged").status == 401
    signed_out = opened.post("/sign-out", Cookie=f"{opened.form_cookie}; {cookie.partition(';')[0]}")
    assert f"gitsync-session-{opened.port}=" in signed_out.headers["set-cookie"]
    assert opened.get("/apps", Cookie=cookie.partition(";")[0]).status == 401  # a copy of the cookie is of no use


def test_a_session_expires_and_outlasts_a_restart_with_the_same_key(site: Open) -> None:
    now = [1000.0]
    store = MemorySessions()

    def opens(key: str) -> Site:
        return site([application()], token=TOKEN, sessions=Sessions(key, 60.0, lambda: now[0], store))

    first, again, other = opens("k" * 32), opens("k" * 32), opens("o" * 32)
    cookie = first.post("/sign-in", {"secret": TOKEN}).headers["set-cookie"].partition(";")[0]
    value = cookie.partition("=")[2]
    assert first.get("/apps", Cookie=cookie).status == 200
    assert again.get("/apps", Cookie=f"gitsync-session-{again.port}={value}").status == 200
    assert again.get("/apps", Cookie=cookie).status == 401  # the cookie of another port
    assert other.get("/apps", Cookie=f"gitsync-session-{other.port}={value}").status == 401
    now[0] += 61
    assert first.get("/apps", Cookie=cookie).status == 401


def test_machines_send_the_token_as_a_bearer(site: Open) -> None:
    opened = site(token=TOKEN)
    assert opened.get("/apps", Authorization=f"Bearer {TOKEN}").status == 200
    wrong = opened.get("/apps", Authorization="Bearer wrong")
    assert (wrong.status, "The token is wrong" in wrong.text) == (401, True)
    assert (opened.get("/apps").status, opened.get("/apps").text) == (401, "Sign in first.\n")
    assert opened.get("/apps", Authorization=f"Basic {TOKEN}").status == 401
    for path in ("/healthz", "/readyz", "/metrics"):
        assert opened.get(path).status == 200


@pytest.mark.parametrize(
    "path", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "javascript:alert(1)", "/a\nb", ""]
)
def test_signing_in_leads_to_no_other_site(site: Open, path: str) -> None:
    opened = site(token=TOKEN)
    assert opened.post("/sign-in", {"secret": TOKEN, "next": path}).headers["location"] == "/"


def test_wrong_tokens_delay_the_next_ones_of_their_address(site: Open) -> None:
    # each replica counts its own
    opened = site([application()], token=TOKEN, are_two=False)
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert opened.get("/apps", **known).status == 200
    tries = [opened.post("/sign-in", {"secret": f"wrong {number}"}).status for number in range(12)]
    assert tries[:5] == [401] * 5
    assert 429 in tries
    bearers = [opened.get("/apps", Authorization="Bearer wrong") for _ in range(9)]
    assert [int(late.headers["retry-after"]) > 0 for late in bearers if late.status == 429]
    assert opened.get("/apps", **known).status == 200, "a token that was valid before is not delayed"
    assert opened.get("/healthz").status == 200


def test_one_address_does_not_delay_others(site: Open) -> None:
    opened = site([application()], token=TOKEN, proxy=Proxy.parse("127.0.0.1", names_users=False))
    late = [opened.get("/apps", Authorization="Bearer wrong", X_Forwarded_For="192.0.2.1").status for _ in range(12)]
    assert 429 in late
    assert opened.get("/apps", Authorization=f"Bearer {TOKEN}", X_Forwarded_For="192.0.2.2").status == 200


def test_a_read_only_dashboard_shows_no_button_and_takes_no_form(site: Open) -> None:
    opened = site([application(resources=[resource("a", sync="OutOfSync")], held=("it waits",))], read_only=True)
    for path in ("/", "/approvals", "/apps/gitsync/shop", "/apps/gitsync/shop/plan", "/apps/gitsync/shop/suspend"):
        assert "<button" not in opened.get(path).text.partition('<aside id="panel"')[0]
        assert 'method="post"' not in opened.get(path).text
    for action in ("sync", "suspend", "resume", "review", "revert"):
        assert opened.post(f"/apps/gitsync/shop/{action}").status == 403
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("action", ["sync", "suspend", "resume", "review", "revert"])
def test_a_form_of_another_site_is_refused(site: Open, action: str) -> None:
    opened = site([application(resources=[resource("a", sync="OutOfSync")], held=("it waits",))])
    path = f"/apps/gitsync/shop/{action}"
    assert opened.post(path, Origin="http://evil.example").status == 403
    assert opened.post(path, Origin="null").status == 403
    assert opened.post(path, Cookie="").status == 403
    assert opened.post(path, {"token": "x" * 43}).status == 403
    assert opened.engine.requests.done == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil", "[", ""]
)
def test_another_site_that_resolves_to_this_address_is_not_answered(site: Open, host: str) -> None:
    opened = site([application()])
    for path in ("/", "/apps/gitsync/shop", "/api/v1/applications/gitsync/shop/plan", "/live", "/metrics"):
        answer = opened.get(path, Host=host)
        assert answer.status in (400, 421)
        assert "shop" not in answer.text
    assert opened.post("/apps/gitsync/shop/sync", Host=host, Origin=f"http://{host}").status in (400, 421)
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "demo.localhost", "10.1.2.3:8080"])
def test_loopback_names_and_addresses_are_answered(site: Open, host: str) -> None:
    assert site([application()]).get("/", Host=host).status == 200


def test_a_public_url_is_the_only_name(site: Open) -> None:
    opened = site([application()], public_url="https://gitsync.example.com", token="t")
    assert opened.get("/sign-in", Host="gitsync.example.com").status == 200
    answer = opened.get("/sign-in", Host="evil.example")
    assert (answer.status, "set GITSYNC_WEB_URL" in answer.text) == (421, True)
    signed = site([application()], token="t")
    assert signed.get("/sign-in", Host="gitsync.gitsync.svc").status == 200
    with pytest.raises(InvalidInput, match="not a valid URL"):
        site([], public_url="gitsync")
