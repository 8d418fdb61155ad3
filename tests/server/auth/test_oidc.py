"""Sign-in at a real provider of OpenID Connect, which runs in a process of its own."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
import pytest

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.objects.change import Risk
from gitsync.server.auth import oidc
from gitsync.server.auth.oidc import Provider
from tests.asgi_server import Answer
from tests.child_process import child_process
from tests.server.conftest import Open, Site
from tests.server.fakes import application, resource
from tests.waiting import until

pytestmark = pytest.mark.skipif(find_spec("oidc_provider_mock") is None, reason="the provider is not installed")

DIGEST = "d" * 64
HELD = application(
    resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)],
    held=("1 dangerous step waits for platform",),
    spec={"risk": {"approvers": {"groups": ["platform"]}}},
)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with child_process([sys.executable, "-m", "oidc_provider_mock", "--host", "127.0.0.1", "--port", port]):
        until(lambda: answers(url), 30)
        claims = {"email": "ada@example.com", "email_verified": True, "groups": ["platform"]}
        put(f"{url}/users/ada", claims)
        put(f"{url}/users/eve", {**claims, "email": "eve@example.com", "groups": ["sales"]})
        put(f"{url}/users/mallory", {**claims, "email_verified": False})
        put(f"{url}/users/text", {**claims, "email_verified": "false"})
        put(f"{url}/users/nothing", {**claims, "email_verified": None})
        put(f"{url}/users/lenient", {**claims, "email_verified": "true"})
        yield url


def answers(url: str) -> bool:
    try:
        return urllib.request.urlopen(f"{url}/.well-known/openid-configuration", timeout=60).status == 200
    except URLError:
        return False


def put(url: str, claims: dict[str, object]) -> None:
    body, headers = orjson.dumps(claims), {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT"), timeout=60).close()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        return None


def at_provider(url: str, subject: str) -> str:
    """Sign in at the provider and return the path and query that it sends the browser back to."""
    body = urlencode({"sub": subject}).encode()
    try:
        urllib.request.build_opener(_Stay).open(urllib.request.Request(url, body), timeout=60)
    except HTTPError as answer:
        return urlsplit(answer.headers["location"])._replace(scheme="", netloc="").geturl()
    raise AssertionError("the provider did not redirect")


def opened(site: Open, issuer: str) -> Site:
    return site([HELD], provider=Provider(issuer, "gitsync", "a-secret-of-the-client"))


def begin(shown: Site) -> tuple[str, str]:
    """Return the URL of the provider, and the cookie that keeps the sign-in that was begun."""
    answer = shown.get("/sign-in/oidc?next=/apps")
    assert answer.status == 303
    return answer.headers["location"], answer.headers["set-cookie"].partition(";")[0]


def session_of(answer: Answer, shown: Site) -> str:
    found = (cookie.partition(";")[0] for cookie in answer.cookies)
    return next(cookie for cookie in found if cookie.startswith(f"gitsync-session-{shown.port}="))


def sign_in(shown: Site, subject: str) -> Answer:
    url, cookie = begin(shown)
    return shown.get(at_provider(url, subject), Cookie=cookie)


def test_a_user_of_the_group_signs_in_and_approves(site: Open, issuer: str) -> None:
    shown = opened(site, issuer)
    assert "/sign-in/oidc" in shown.get("/sign-in").text
    assert shown.get("/apps").status == 401
    answer = sign_in(shown, "ada")
    assert (answer.status, "url=/apps" in answer.text) == (200, True)
    headers = {"Cookie": f"{shown.form_cookie}; {session_of(answer, shown)}"}
    assert "As ada@example.com" in shown.get("/apps/gitsync/shop/plan", **headers).text
    fields = {"decision": "approve", "digest": DIGEST, "reason": "reviewed"}
    assert shown.post("/apps/gitsync/shop/review", fields, **headers).status == 303
    review, signed_in = shown.engine.records.audit_records()
    assert (signed_in.action, signed_in.approver) == ("sign-in", "ada@example.com")
    assert (review.approver, review.details["groups"]) == ("ada@example.com", ["platform"])


def test_a_user_of_another_group_views_and_does_not_approve(site: Open, issuer: str) -> None:
    shown = opened(site, issuer)
    headers = {"Cookie": f"{shown.form_cookie}; {session_of(sign_in(shown, 'eve'), shown)}"}
    assert shown.get("/apps", **headers).status == 200
    fields = {"decision": "approve", "digest": DIGEST, "reason": "reviewed"}
    assert shown.post("/apps/gitsync/shop/review", fields, **headers).status == 403


@pytest.mark.parametrize("subject", ["mallory", "text", "nothing"])
def test_an_unverified_address_does_not_sign_in(site: Open, issuer: str, subject: str) -> None:
    answer = sign_in(opened(site, issuer), subject)
    assert (answer.status, "does not say that it has verified your e-mail address" in answer.text) == (403, True)


def test_a_verified_address_may_be_written_as_text(site: Open, issuer: str) -> None:
    assert sign_in(opened(site, issuer), "lenient").status == 200


def test_answers_of_other_sign_ins_are_rejected(site: Open, issuer: str) -> None:
    shown = opened(site, issuer)
    (first, cookie), (second, other) = begin(shown), begin(shown)
    back = at_provider(first, "ada")
    assert shown.get(back).status == 403  # begun in another browser: a link that an attacker sent
    assert shown.get(back, Cookie=other).status == 403
    code = parse_qs(urlsplit(back).query)["code"][0]
    state = parse_qs(urlsplit(second).query)["state"][0]
    injected = f"/sign-in/oidc/callback?{urlencode({'code': code, 'state': state})}"
    assert shown.get(injected, Cookie=other).status == 403  # PKCE: the code belongs to another verifier
    assert shown.get(back, Cookie=f"{cookie.partition('=')[0]}=forged").status == 403


def test_the_callback_and_the_request_have_no_secret(site: Open, issuer: str) -> None:
    url, cookie = begin(opened(site, issuer))
    query = parse_qs(urlsplit(url).query)
    assert query["code_challenge_method"] == ["S256"]
    assert {"state", "nonce", "code_challenge"} <= query.keys()
    assert query["state"][0] not in cookie
    assert "secret" not in url


@pytest.mark.parametrize("issuer", ["http://accounts.example", "accounts.example", "", "file:///x"])
def test_an_issuer_is_an_https_url(issuer: str) -> None:
    with pytest.raises(InvalidInput, match="is not the URL of a provider"):
        Provider(issuer, "id", "secret")


@pytest.mark.parametrize(("status", "body"), [(503, b"{}"), (200, b"[]"), (404, b"<html>")])
def test_an_outage_of_the_provider_is_not_kept(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> None:
    issuer = "https://accounts.example.com"
    metadata = orjson.dumps({"issuer": issuer, "authorization_endpoint": f"{issuer}/authorize"})
    answers = [(status, body), (200, metadata)]
    monkeypatch.setattr(oidc, "request", lambda *arguments, **options: answers.pop(0))
    provider = Provider(issuer, "gitsync", "a-secret")
    with pytest.raises(SourceUnavailable, match=f"the provider answered {status}"):
        provider.begin("https://gitsync.example/callback", "/")
    url, _ = provider.begin("https://gitsync.example/callback", "/")
    assert url.startswith(f"{issuer}/authorize?")
    provider.begin("https://gitsync.example/callback", "/")
    assert answers == [], "the good answer is kept"
