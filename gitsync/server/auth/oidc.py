"""Sign-in at a provider by the authorization code flow of OpenID Connect Core 1.0, with PKCE, state and nonce."""

from __future__ import annotations

import ipaddress
import secrets
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from gitsync.errors import InvalidInput, Refused, SourceUnavailable
from gitsync.integrations.http import RequestFailed, request
from gitsync.objects.user import User
from gitsync.server.auth.users import person_of

SECONDS: Final = 600
"""Seconds that a sign-in may take."""
# no HS256, for which a public key could serve as the secret, and not "none"
_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
_TIMEOUT = 10.0
# an endless document must not fill the memory
_MAX_BYTES = 1 << 20
_CACHED = 3600.0
# clocks of the provider and of this machine differ
_LEEWAY: Final = 60


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that was begun, and the path to which it leads."""

    state: str
    nonce: str
    verifier: str
    next: str

    def sealed(self) -> dict[str, object]:
        """Return what a cookie keeps."""
        return asdict(self)

    @classmethod
    def opened(cls, kept: dict[str, str]) -> PendingSignIn:
        """Return the sign-in that a cookie kept."""
        return cls(kept["state"], kept["nonce"], kept["verifier"], kept["next"])


class Provider:
    """
    A provider that the operator trusts with names and groups of users.

    ``name_claim`` and ``groups_claim`` are the claims of the ID token with the user's name and groups. Raise
    InvalidInput when the extra ``oidc`` is not installed, or the issuer is not an ``https`` URL (loopback apart).
    """

    def __init__(
        self, issuer: str, client_id: str, client_secret: str, name_claim: str = "email", groups_claim: str = "groups"
    ) -> None:
        _check_installed()
        _check_issuer(issuer)
        self._issuer = issuer
        self._client = (client_id, client_secret)
        self._claims = (name_claim, groups_claim)
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, dict[str, Any]]] = {}

    def begin(self, callback: str, next: str) -> tuple[str, PendingSignIn]:
        """Return the URL of the provider's sign-in page, and what has to be kept until the user returns."""
        # state binds the answer to this browser, nonce the ID token to this sign-in, verifier the code to this server
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = PendingSignIn(state, nonce, verifier, next)
        url, _ = self._session(callback).create_authorization_url(
            self._metadata("authorization_endpoint"), state=flow.state, nonce=flow.nonce, code_verifier=flow.verifier
        )
        return str(url), flow

    def finish(self, callback: str, query: str, flow: PendingSignIn) -> User:
        """
        Return the user of an answer of the provider; ``query`` is that of the URL it redirected to.

        Raise Refused for an answer to another sign-in, or an ID token that is not valid for us.
        """
        # imported here: the extra is optional
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        try:
            token = self._session(callback, flow.state).fetch_token(
                self._metadata("token_endpoint"),
                # Authlib compares the state in this URL with that of the session
                authorization_response=f"{callback}?{query}",
                code_verifier=flow.verifier,
                timeout=_TIMEOUT,
            )
        except AuthlibBaseError as error:
            raise Refused(f"the provider did not sign you in: {error.error}", location=self._issuer) from error
        except RequestException as error:
            raise SourceUnavailable("the provider does not answer", location=self._issuer) from error
        return self._user(str(token.get("id_token", "")), flow.nonce)

    def _session(self, callback: str, state: str | None = None) -> Any:
        from authlib.integrations.requests_client import OAuth2Session

        return OAuth2Session(
            # scopes that a provider does not know are ignored by it (OpenID Connect Core 1.0, 3.1.2.1)
            *self._client, scope="openid email profile groups", redirect_uri=callback, state=state,
            code_challenge_method="S256",
        )  # fmt: skip

    def _user(self, id_token: str, nonce: str) -> User:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        required = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client[0]},
            exp={"essential": True},
            # a token of another sign-in is refused, also one that was stolen
            nonce={"essential": True, "value": nonce},
        )
        try:
            keys = KeySet.import_key_set(self._document(self._metadata("jwks_uri")))  # type: ignore[arg-type]
            claims = jwt.decode(id_token, keys, algorithms=_ALGORITHMS).claims
            required.validate(claims)
        except (JoseError, ValueError) as error:
            raise Refused(f"the ID token of the provider is not valid: {error}", location=self._issuer) from error
        return self._named(claims)

    def _named(self, claims: dict[str, Any]) -> User:
        """Return the user that claims name; an e-mail address has to be verified."""
        name_claim, groups_claim = self._claims
        # also a missing claim: such providers let users enter any address, such as that of another one. Some send text
        # instead of a Boolean (OpenID Connect Core 1.0, 5.1)
        if name_claim == "email" and claims.get("email_verified") not in (True, "true"):
            raise Refused(
                "the provider does not say that it has verified your e-mail address",
                location=self._issuer,
                hint="name users by another claim: GITSYNC_OIDC_NAME_CLAIM",
            )
        groups = claims.get(groups_claim) or []
        try:
            # a provider may send a single group as text
            return person_of(claims.get(name_claim), groups if isinstance(groups, list) else [groups], "ID token")
        except InvalidInput as error:
            raise Refused(
                f"claim {name_claim} or {groups_claim} is not usable: {error}", location=self._issuer
            ) from error

    def _metadata(self, member: str) -> str:
        metadata = self._document(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        # has to be identical (OpenID Connect Discovery 1.0, 4.3), else one issuer could speak for another
        if metadata.get("issuer") != self._issuer:
            raise Refused(f"the provider names another issuer: {metadata.get('issuer')}", location=self._issuer)
        return str(metadata.get(member, ""))

    def _document(self, url: str) -> dict[str, Any]:
        """Return a JSON document of the provider, at most an hour old."""
        now = time.monotonic()
        # not held during the request: a slow provider would stop every sign-in
        with self._lock:
            asked, known = self._found.get(url, (0.0, None))
        if known is not None and now - asked < _CACHED:
            return known
        try:
            status, answer = request("GET", url, {}, timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
            document = orjson.loads(answer) if status == 200 else None
        except (RequestFailed, orjson.JSONDecodeError) as error:
            raise SourceUnavailable(f"the provider {error}", location=url) from error
        # not kept: the next sign-in asks again
        if not isinstance(document, dict):
            raise SourceUnavailable(f"the provider answered {status} without a JSON object", location=url)
        with self._lock:
            self._found[url] = (now, document)
        return document


def _check_installed() -> None:
    try:
        # at the start, not at the first sign-in, which would be the one to fail
        import authlib
    except ImportError as error:
        raise InvalidInput(
            "sign-in by OpenID Connect needs further libraries",
            location="GITSYNC_OIDC_ISSUER",
            hint="pip install 'gitsync[oidc]'",
        ) from error
    del authlib


def _check_issuer(issuer: str) -> None:
    parts = urlsplit(issuer)
    try:
        # plain HTTP is accepted where it does not leave the machine
        is_local = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_local = parts.hostname == "localhost"
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and is_local)):
        raise InvalidInput(
            f"{issuer!r} is not the URL of a provider",
            location="GITSYNC_OIDC_ISSUER",
            hint="write it as https://accounts.example.com",
        )
