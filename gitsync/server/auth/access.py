"""Access: who asks, and whether they may pass."""

from __future__ import annotations

import hmac
import ipaddress
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gitsync.errors import InvalidInput
from gitsync.objects.user import User
from gitsync.server.auth.oidc import Provider
from gitsync.server.auth.security import cookie_name
from gitsync.server.auth.sessions import Session, Sessions
from gitsync.server.auth.users import Users, account_of, hash_of, person_of, session_of
from gitsync.server.problems import PREFIX, problem

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ANONYMOUS = User("")
"""A client that reached the port, or has the shared token: its name is not proven."""
SCRAPER = User("metrics")
"""A client with the token of the metrics, which only ``METRICS`` accepts."""
METRICS = "/metrics"
SIGN_OUT = "/sign-out"
"""Where users end their sessions, also those of other browsers."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The networks of the proxy in front; with ``names_users`` it says who asks, having signed them in."""

    networks: tuple[Network, ...] = ()
    names_users: bool = False

    @classmethod
    def parse(cls, addresses: str, names_users: bool) -> Proxy:
        """Read addresses and networks, divided by commas; raise InvalidInput when one is none."""
        networks = []
        for text in filter(None, map(str.strip, addresses.split(","))):
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError:
                raise InvalidInput(
                    f"{text!r} is not a valid address",
                    location="GITSYNC_WEB_PROXY",
                    hint="write 10.0.0.7 or 10.0.0.0/24",
                ) from None
        if names_users and not networks:
            raise InvalidInput(
                "any client could impersonate any user",
                location="GITSYNC_WEB_PROXY_USERS",
                hint="name GITSYNC_WEB_PROXY too",
            )
        return cls(tuple(networks), names_users)

    def sent(self, request: Request) -> bool:
        """Tell whether a request comes from the proxy, by the address of the connection itself."""
        try:
            # never by X-Forwarded-For, which any client can write
            address = ipaddress.ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        return any(address in network for network in self.networks)

    def person(self, request: Request) -> User | None:
        """Return the user that the proxy names, None when it names none or is not clear."""
        users, groups = (request.headers.getlist(f"x-forwarded-{name}") for name in ("user", "groups"))
        # two headers: one may be the client's own beside that of the proxy
        if not self.names_users or len(users) != 1 or len(groups) > 1 or not self.sent(request):
            return None
        try:
            named = [group.strip() for group in ",".join(groups).split(",") if group.strip()]
            return person_of(users[0].strip(), named, "X-Forwarded-User")
        except InvalidInput:
            # a name that cannot be a user's: as a request without it
            return None


@dataclass(frozen=True, slots=True)
class SignIn:
    """
    How clients prove who they are, beside the proxy.

    People sign in with a token of their own (``users``), with the one that they share (``token``), or at a ``provider``
    of OpenID Connect. A monitoring system reads ``METRICS`` with ``metrics_token``; without one they are open, as far
    as no policy hides Applications.
    """

    token: str = ""
    users: Users | None = None
    provider: Provider | None = None
    metrics_token: str = ""


@dataclass(frozen=True, slots=True)
class Exposure:
    """
    Where clients reach the dashboard: at its public URL, through a proxy in front, or on loopback only.

    On loopback (``is_local``) the shared token is generated, and a link with a token of its own signs one browser in.
    """

    public_url: str = ""
    proxy: Proxy = field(default_factory=Proxy)
    is_local: bool = False


_WRONG_TOKEN = "The token is wrong, has expired or was removed: send another one as Authorization: Bearer TOKEN."
_BY_NOTHING = SignIn()
_ANYWHERE = Exposure()


class Access:
    """
    Sign-in, and read-only operation.

    A browser holds a session that expires; machines send the token as a bearer. Where neither ``sign_in`` nor the proxy
    identifies users, every client may view: for tests.
    """

    COOKIE = "gitsync-session"
    # probes of the kubelet have no credentials, and a webhook is signed with a secret of its own
    OPEN = ("/healthz", "/readyz", "/sign-in", "/static/", "/webhook/")

    def __init__(
        self,
        sign_in: SignIn = _BY_NOTHING,
        exposure: Exposure = _ANYWHERE,
        *,
        sessions: Sessions | None = None,
        read_only: bool = False,
    ) -> None:
        self.is_local = exposure.is_local
        self._link = secrets.token_urlsafe(32) if exposure.is_local else ""
        self._link_lock = threading.Lock()
        self._hosts = KnownHosts(exposure.public_url)
        self.public_url = exposure.public_url.rstrip("/")
        # only hashes are kept: memory has no token
        self._shared = hash_of(session_of(sign_in.token)) if sign_in.token else ""
        self._metrics = hash_of(session_of(sign_in.metrics_token)) if sign_in.metrics_token else ""
        self._attempts = Attempts()
        self._used: set[str] = set()
        """Hashes of tokens that were valid: wrong tokens of others on the same address do not delay them."""
        self.sessions = sessions or Sessions()
        self.provider = sign_in.provider
        self._users = sign_in.users
        self._proxy = exposure.proxy
        self.is_read_only = read_only

    @property
    def is_needed(self) -> bool:
        """Whether people have to sign in."""
        return bool(self._shared or self.provider) or self._users is not None or self._proxy.names_users

    @property
    def takes_tokens(self) -> bool:
        """Whether people can sign in with a token."""
        return bool(self._shared) or self._users is not None

    @property
    def link(self) -> str:
        """The query of a URL that signs in the first browser that opens it, empty where users sign in otherwise."""
        return f"/?token={self._link}" if self._link else ""

    def _signed_in(self, request: Request) -> Response | None:
        """Return the answer to the first request with the token of the link: the page without it, and a session."""
        token = request.query_params.get("token", "")
        # requests are checked in several threads: two with the token at once must not both pass
        with self._link_lock:
            # compare_digest refuses str with other characters than ASCII
            if not self._link or not hmac.compare_digest(token.encode(), self._link.encode()):
                return None
            # valid once: a URL remains in the history of a browser
            self._link = ""
        response = RedirectResponse(request.url.path, 303)
        self.keep(request, response, Session(self._shared), ANONYMOUS)
        return response

    def keep(self, request: Request, response: Response, session: Session, user: User) -> None:
        """Start a session of a user, and store it in a cookie that scripts and other sites cannot use."""
        # strict: not sent with a request that another site causes, as a second barrier beside the form token
        response.set_cookie(
            cookie_name(self.COOKIE, request),
            self.sessions.issue(session, user.name, self._address(request), request.headers.get("user-agent", "")),
            max_age=int(self.sessions.seconds),
            httponly=True,
            samesite="strict",
            # a browser drops a secure cookie that comes over plain HTTP
            secure=request.url.scheme == "https",
            path="/",
        )

    def session_id(self, request: Request) -> str:
        """Return the id of the session of a request in the store, empty where it has none."""
        return self.sessions.id_of(request.cookies.get(cookie_name(self.COOKIE, request), ""))

    def sign_out(self, request: Request, response: Response) -> None:
        """End the session of a request; raise RecordUnavailable where other replicas were not informed."""
        response.delete_cookie(cookie_name(self.COOKIE, request), path="/")
        if id := self.session_id(request):
            self.sessions.end([id])

    def _of_token(self, key: str) -> User | None:
        """Return who has the token with this hash, compared in constant time; None for an unknown one."""
        if self._shared and hmac.compare_digest(key.encode(), self._shared.encode()):
            return ANONYMOUS
        # by a hash: the time of this lookup reveals nothing of the token
        return self._users.find(key) if self._users is not None else None

    def _is_of_metrics(self, request: Request, key: str) -> bool:
        """Return whether a hash is that of the token of the metrics, and the request is for them."""
        is_known = bool(self._metrics) and hmac.compare_digest(key.encode(), self._metrics.encode())
        return is_known and request.url.path == METRICS

    def _of_session(self, request: Request) -> User | None:
        """Return who holds the session of a request; one by a token ends with that token."""
        session = self.sessions.read(request.cookies.get(cookie_name(self.COOKIE, request), ""))
        if session is None:
            return None
        # found by the token again: its removal or expiry ends the session at once
        if session.token:
            return self._of_token(session.token)
        # a provider that the operator removed vouches for no session any more
        return session.user if self.provider is not None else None

    def attempt(self, request: Request, token: str) -> User | None:
        """Return the user of a token that was sent, None for a wrong one and while address or account has to wait."""
        key = hash_of(session_of(token))
        delayed = self._delayed(request, token)
        if key not in self._used and any(map(self._attempts.wait, delayed)):
            return None
        user = SCRAPER if self._is_of_metrics(request, key) else self._of_token(key)
        if user is None:
            # removed or expired since: it counts as a wrong one from now on
            self._used.discard(key)
            for name in delayed:
                self._attempts.fail(name)
        else:
            # grows by valid tokens only, not by what clients send
            self._used.add(key)
        return user

    def _delayed(self, request: Request, token: str) -> list[str]:
        """Return what a wrong token delays: its address, and the account that it names."""
        account = account_of(token)
        return [self._address(request), *([f"account {account}"] if account else [])]

    def wait(self, request: Request, token: str = "") -> int:
        """Return the seconds until another token of the address of a request, or for the account, is checked."""
        return math.ceil(max(map(self._attempts.wait, self._delayed(request, token))))

    def _bearer_wait(self, request: Request) -> int:
        return self.wait(request, request.headers["authorization"].partition(" ")[2])

    def _address(self, request: Request) -> str:
        """Return the address of the client; behind the proxy, the one that the proxy names."""
        direct = request.client.host if request.client else ""
        # the last entry is the proxy's; those before it came with the request
        named = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        return named if named and self._proxy.sent(request) else direct

    def person(self, request: Request) -> User | None:
        """Return the user of a request, None when sign-in is needed first."""
        if not self.is_needed:
            return ANONYMOUS
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        # the proxy first: it is configured to decide, whatever token a client sends beside it
        return (
            self._proxy.person(request)
            or (self.attempt(request, bearer) if scheme.lower() == "bearer" else None)
            or self._of_session(request)
        )

    def refusal(self, request: Request) -> Response | None:
        """
        Return the answer to a request that may not pass: a way to the sign-in for a browser, else a refusal.

        On success ``request.state.person`` is set.
        """
        # TLS ends at the proxy: the cookie would not be marked secure
        if self._proxy.sent(request) and request.headers.get("x-forwarded-proto") == "https":
            request.scope["scheme"] = "https"
        # two Host headers become one unknown name: what is in between may use another of them
        unknown = self._hosts.refusal(
            ",".join(request.headers.getlist("host")), needs_sign_in=self.is_needed and not self.is_local
        )
        if unknown:
            return PlainTextResponse(f"{unknown}\n", 421)
        signed_in = self._signed_in(request) if request.method == "GET" else None
        if signed_in is not None:
            return signed_in
        path = request.url.path
        person = self.person(request)
        # open paths need a user too: a page of an error shows who is signed in
        request.state.person = person or ANONYMOUS
        request.state.is_let_in = person is not None
        if path.startswith(self.OPEN) or (path == METRICS and not self._metrics):
            return None
        if person is None:
            # a browser that opens a page; scripts get a status instead of a page
            if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
                wanted = f"{path}?{request.url.query}" if request.url.query else path
                return RedirectResponse(f"/sign-in?next={quote(wanted, safe='')}", 303)
            if "authorization" in request.headers and (wait := self._bearer_wait(request)):
                return _refused(request, 429, too_many(wait), {"Retry-After": str(wait)})
            text = _WRONG_TOKEN if "authorization" in request.headers else "Sign in first."
            return _refused(request, 401, text, {"WWW-Authenticate": "Bearer"})
        # after the open paths: to sign in or out, or to announce a push, changes no application
        if self.is_read_only and request.method not in ("GET", "HEAD") and not path.startswith(SIGN_OUT):
            return _refused(request, 403, "This dashboard is read-only.")
        return None


def _refused(request: Request, code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    if request.url.path.startswith(PREFIX):
        return problem(request, code, text, headers)
    return PlainTextResponse(f"{text}\n", code, headers)


def too_many(wait: int) -> str:
    """Return the answer to a token that is not checked before these seconds have passed."""
    return f"Too many wrong tokens from this address or for this user: try again in {wait} s."


class Guard:
    """Let through what ``Access`` does not refuse."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        refusal = None
        # lifespan events have neither a client nor a path
        if scope["type"] == "http":
            # in a thread: a database that is slow to find the session must not stop the other clients
            refusal = await run_in_threadpool(self._access.refusal, Request(scope))
        await (refusal or self._app)(scope, receive, send)


def is_let_in(request: Request) -> bool:
    """Whether the user of a request is known, or needs no sign-in: others see nothing but the way to sign in."""
    return bool(request.state.is_let_in)


def current_user(request: Request) -> User:
    """Return the user of a request."""
    person: User = request.state.person
    return person


_FREE: Final = 5
"""Wrong tokens without a delay."""
_LONGEST: Final = 60.0
_FORGOTTEN: Final = 900.0
"""Seconds after the last wrong token after which its count starts at zero."""
# bounds the memory for a client with many addresses, such as an IPv6 network
_ADDRESSES: Final = 10_000


class Attempts:
    """Count wrong tokens by address or account; the delay in seconds is 1, 2, 4 and so on, at most a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        # not the wall clock: set forward, it would end every delay
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until the next token of an address is checked, 0 for at once."""
        with self._lock:
            failures, last = self._failed.get(address, (0, 0.0))
            elapsed = self._monotonic() - last
            # 2.0 ** 1024 is an OverflowError
            delay = min(2.0 ** min(failures - _FREE, 10), _LONGEST) if failures >= _FREE else 0.0
            return max(delay - elapsed, 0.0)

    def fail(self, address: str) -> None:
        """Count a wrong token; the addresses that failed longest ago are forgotten where there are too many."""
        now = self._monotonic()
        with self._lock:
            # removed and added: it moves to the end, so that the first entry is the one that failed longest ago
            failures, last = self._failed.pop(address, (0, now))
            self._failed[address] = (failures + 1 if now - last < _FORGOTTEN else 1, now)
            while len(self._failed) > _ADDRESSES:
                self._failed.popitem(last=False)


class KnownHosts:
    """
    Check the ``Host`` of requests, against DNS rebinding.

    Addresses and loopback names always pass, since no foreign page has them as its origin by a DNS name. With a public
    URL its host passes too, and no other name. Without one, other names pass only where users have to sign in: a
    foreign page has no session.
    """

    def __init__(self, public_url: str = "") -> None:
        self._public = urlsplit(public_url).hostname or ""
        if public_url and not self._public:
            raise InvalidInput(
                f"{public_url!r} is not a valid URL",
                location="GITSYNC_WEB_URL",
                hint="write https://gitsync.example.com",
            )

    def refusal(self, host: str, *, needs_sign_in: bool) -> str:
        """Return why a request for this host is refused, empty when it is answered."""
        name = _name(host)
        # without a public URL an empty Host would equal the empty name
        if _is_address(name) or name == "localhost" or name.endswith(".localhost") or name == self._public != "":
            return ""
        if needs_sign_in and not self._public:
            return ""
        return "unknown host: open the dashboard by its address, or set GITSYNC_WEB_URL to its public URL"


def _name(host: str) -> str:
    try:
        # a DNS name with its root dot is the same host
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    # urlsplit raises for brackets that hold no IPv6 address
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
