"""The JSON Web Token by which a GitHub App proves who it is (RFC 7519, RS256)."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gitsync.errors import InvalidInput
from gitsync.ports.source import CREDENTIALS_SECRET

_LIFETIME = 540
"""Seconds; GitHub accepts at most 600."""
_SKEW = 60
"""Seconds that our clock may be ahead of GitHub's."""


def app_jwt(app_id: str, private_key: str, now: float) -> str:
    """Return a signed token of an App; raise InvalidInput, without the key, when the key cannot sign."""
    claims = {"iat": int(now) - _SKEW, "exp": int(now) + _LIFETIME, "iss": app_id}
    signed = b".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    signature = _key(private_key).sign(signed, padding.PKCS1v15(), hashes.SHA256())
    return (signed + b"." + _encoded(signature)).decode()


def _key(text: str) -> rsa.RSAPrivateKey:
    try:
        key: Any = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise _invalid("is not a private key in PEM") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _invalid("is not an RSA key")
    return key


def _invalid(what: str) -> InvalidInput:
    hint = "store the .pem file that GitHub created for the App, with its line breaks"
    return InvalidInput(f"githubAppPrivateKey {what}", location=CREDENTIALS_SECRET, hint=hint)


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
