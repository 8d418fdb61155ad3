"""Authentication: bearer tokens, service account tokens, and anonymous."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gitsync.sandbox.errors import unauthorized

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
AUDIENCE = "https://kubernetes.default.svc"
"""The audience of a token that names none: the API server, which also issues it."""


@dataclass(frozen=True, slots=True)
class ApiUser:
    """An authenticated user, or the anonymous one."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``userInfo`` of reviews and admission requests."""
        members: dict[str, Any] = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        if self.extra:
            members["extra"] = {key: list(values) for key, values in self.extra.items()}
        return {key: value for key, value in members.items() if value}


ADMIN = ApiUser("sandbox-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = ApiUser("system:anonymous", (UNAUTHENTICATED,))


def service_account_user(namespace: str, name: str, uid: str) -> ApiUser:
    """Return the user that a service account's token authenticates."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return ApiUser(f"system:serviceaccount:{namespace}:{name}", groups, uid)


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The service account that a token is issued for."""

    namespace: str
    name: str
    uid: str


class Tokens:
    """The bearer tokens: one for the administrator, signed ones for service accounts, and added ones."""

    def __init__(self, admin_token: str) -> None:
        self._admin = admin_token
        self._key = hashlib.sha256(b"service accounts\0" + admin_token.encode()).digest()
        self._added: dict[str, ApiUser] = {}

    def add(self, token: str, user: ApiUser) -> None:
        """Register a token of a user, who is also added to ``system:authenticated``."""
        groups = tuple(dict.fromkeys((*user.groups, AUTHENTICATED)))
        self._added[token] = ApiUser(user.name, groups, user.uid, user.extra)

    def user_of(self, authorization: str, now: float) -> ApiUser:
        """Return the user of an Authorization header, anonymous for none or another scheme; 401 when wrong."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        # Another scheme is ignored, as by a real server without an authenticator for it.
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        # Constant time, so that the answer does not tell how much of a guess is right.
        if hmac.compare_digest(token.encode(), self._admin.encode()):
            return ADMIN
        if token in self._added:
            return self._added[token]
        claims = self.read(token)
        # By the sandbox's clock, which tests advance.
        if claims is None or claims["exp"] < now:
            raise unauthorized()
        return service_account_user(claims["namespace"], claims["name"], claims["uid"])

    def issue(self, account: ServiceAccount, audiences: list[str], expires: int, now: int) -> str:
        """Return a signed token for a service account, in the form of a JSON Web Token."""
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": AUDIENCE,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            "namespace": account.namespace,
            "name": account.name,
            "uid": account.uid,
        }
        signed = f"{_encode(orjson.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{_encode(orjson.dumps(claims))}"
        return f"{signed}.{_encode(self._sign(signed))}"

    def read(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token this server signed, None for any other."""
        signed, _, signature = token.rpartition(".")
        try:
            if not hmac.compare_digest(_decode(signature), self._sign(signed)):
                return None
            claims: dict[str, Any] = orjson.loads(_decode(signed.partition(".")[2]))
        except (ValueError, orjson.JSONDecodeError):
            return None
        return claims

    def _sign(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
