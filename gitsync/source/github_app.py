"""
Signing in at GitHub as an App: its key signs a token that is exchanged for one of an hour that reads one repository.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from gitsync import __version__
from gitsync.errors import InvalidInput, SourceDenied, SourceUnavailable
from gitsync.ports import Credentials
from gitsync.ports.source import CREDENTIALS_SECRET
from gitsync.source.authentication import StayOnHost, certificates

# seconds before its end from which a token is renewed: a fetch that has begun must not outlive it
_RENEW_BEFORE = 300.0
_TIMEOUT = 15.0
_FIXES = {
    401: "githubAppID and githubAppPrivateKey must belong to one App, and the clock must be right",
    403: "the App is suspended, or may not read repositories",
    404: "githubAppInstallationID must be an installation of this App",
    422: "give the installation access to the repository, and the App the permission to read contents",
}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    expires: float


@dataclass(slots=True)
class InstallationTokens:
    """Exchange the keys of Apps for tokens and keep these until shortly before their end; for several threads."""

    clock: Callable[[], float] = time.time
    _known: dict[tuple[str, Credentials], _Token] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def signed_in(self, url: str, credentials: Credentials, ca_file: Path | None) -> Credentials:
        """
        Return credentials that git can use: those of an App with a token as the password, others as they are.

        Raise SourceDenied when GitHub rejects the App, SourceUnavailable when it does not answer.
        """
        if not credentials.app_key or urlsplit(url).scheme not in ("http", "https"):
            return credentials
        with self._lock:
            token = self._known.get((url, credentials))
            if token is None or token.expires - self.clock() < _RENEW_BEFORE:
                with certificates(credentials, ca_file) as trusted:
                    token = _exchange(url, credentials, trusted, self.clock())
                self._known = {key: kept for key, kept in self._known.items() if kept.expires > self.clock()}
                self._known[url, credentials] = token
        return replace(credentials, username="x-access-token", password=token.text)


def api_of(url: str) -> str:
    """Return the URL of the API beside a repository: never one that a Secret names, which would receive the token."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return "https://api.github.com" if parts.hostname == "github.com" else f"{parts.scheme}://{host}/api/v3"


def _exchange(url: str, credentials: Credentials, ca_file: str, now: float) -> _Token:
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    target = f"{api_of(url)}/app/installations/{quote(credentials.app_installation, safe='')}/access_tokens"
    headers = {
        "Authorization": f"Bearer {app_jwt(credentials.app_id, credentials.app_key, now)}",
        "Accept": "application/vnd.github+json",
        "Content-Type": "application/json",
        "User-Agent": f"gitsync/{__version__}",
    }
    body = json.dumps({"repositories": [name]}).encode()
    answer = _post(urllib.request.Request(target, body, headers, method="POST"), ca_file)
    try:
        return _Token(str(answer["token"]), datetime.fromisoformat(str(answer["expires_at"])).timestamp())
    except (KeyError, TypeError, ValueError) as error:
        raise SourceUnavailable(f"{api_of(url)} did not answer with a token") from error


def _post(request: urllib.request.Request, ca_file: str) -> Any:
    context = ssl.create_default_context(cafile=ca_file or None)
    opener = urllib.request.build_opener(StayOnHost, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=_TIMEOUT) as answer:
            return json.loads(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        with error:
            what = f"{request.host} answers {error.code} for a token of the GitHub App"
        if error.code in _FIXES:
            raise SourceDenied(what, hint=f"in {CREDENTIALS_SECRET}: {_FIXES[error.code]}") from error
        raise SourceUnavailable(what) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceUnavailable(f"{request.host} cannot be reached for a token of the GitHub App") from error


# seconds; GitHub accepts at most 600
_LIFETIME = 540
# seconds that our clock may be ahead of GitHub's
_SKEW = 60


def app_jwt(app_id: str, private_key: str, now: float) -> str:
    """Return a signed token of an App; raise InvalidInput, without the key, when the key cannot sign."""
    from joserfc import jwt  # late: it takes 0.2 s to load, and few installations have an App
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    claims = {"iat": int(now) - _SKEW, "exp": int(now) + _LIFETIME, "iss": app_id}
    try:
        return jwt.encode({"alg": "RS256", "typ": "JWT"}, claims, RSAKey.import_key(private_key))
    except (JoseError, ValueError, TypeError) as error:  # TypeError: a key with a passphrase, by cryptography
        raise InvalidInput(
            "githubAppPrivateKey is not an RSA private key in PEM",
            location=CREDENTIALS_SECRET,
            hint="store the .pem file that GitHub created for the App, with its line breaks",
        ) from error
