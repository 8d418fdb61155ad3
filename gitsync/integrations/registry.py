"""Image registries by the distribution API: the tags of a repository, and the digest of one."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from gitsync import __version__
from gitsync.errors import InvalidInput, SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.integrations.http import open_url

_TIMEOUT: Final = 15.0
"""Seconds that one request may wait for its answer."""
_MAX_BYTES: Final = 4 << 20
_MOST_PAGES: Final = 20
"""Pages of tags that are read; registries return 100 to 1,000 tags a page."""
_DEFAULT_DELAY: Final = 60.0
_MANIFESTS: Final = ", ".join(
    (
        # the index first: its digest is the same for every platform
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_REPOSITORY: Final = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*", re.ASCII)
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Any
    body: bytes


class Registries:
    """
    Read registries over HTTPS, those of this machine over HTTP too as container engines do.

    ``passwords`` returns the user and password for a registry's host, None without. They go to that host, and to the
    token server that its answer names, where that has TLS.
    """

    def __init__(self, passwords: Callable[[str], tuple[str, str] | None]) -> None:
        self._passwords = passwords
        self._tokens: dict[tuple[str, str], str] = {}

    def tags(self, image: str) -> tuple[str, ...]:
        """Return the tags of an image by its name without a tag; raise SourceUnavailable and its kin, InvalidInput."""
        server, repository = _located(image)
        return tuple(self._pages(server, repository))

    def _pages(self, server: str, repository: str) -> Iterator[str]:
        url = f"{server}/v2/{repository}/tags/list?n=1000"
        for _ in range(_MOST_PAGES):
            answer = self._request("GET", url, repository, {"Accept": "application/json"})
            try:
                tags = json.loads(answer.body).get("tags") or ()
                yield from (tag for tag in tags if isinstance(tag, str))
            except (ValueError, AttributeError, TypeError) as error:
                raise SourceUnavailable("the registry did not answer with tags", location=server) from error
            link = re.match(r'\s*<([^>]+)>\s*;\s*rel="?next"?', answer.headers.get("Link", ""))
            if link is None:
                return
            following = urljoin(url, link[1])
            # the token is for this registry alone
            if urlsplit(following)[:2] != urlsplit(server)[:2] or following == url:
                return
            url = following

    def digest(self, image: str, tag: str) -> str:
        """Return the digest of a tag, empty where the registry names none."""
        server, repository = _located(image)
        url = f"{server}/v2/{repository}/manifests/{tag}"
        return str(
            self._request("HEAD", url, repository, {"Accept": _MANIFESTS}).headers.get("Docker-Content-Digest", "")
        )

    def _request(self, method: str, url: str, repository: str, headers: Mapping[str, str]) -> _Answer:
        server = urlsplit(url).netloc
        token = self._tokens.get((server, repository), "")
        answer = _send(method, url, {**headers, **({"Authorization": token} if token else {})})
        if answer.status == 401:
            token = self._authorization(server, repository, answer.headers.get("WWW-Authenticate", ""))
            self._tokens[server, repository] = token
            answer = _send(method, url, {**headers, "Authorization": token})
        if answer.status == 200:
            return answer
        what = f"the registry answers {answer.status} for {repository}"
        if answer.status == 429:
            after = answer.headers.get("Retry-After", "")
            raise SourceThrottled(
                what, location=server, retry_after=float(after) if after.isdecimal() else _DEFAULT_DELAY
            )
        if answer.status in (401, 403):
            raise SourceDenied(what, location=server, hint="sign in: docker login, or another entry of its config file")
        if answer.status < 500:
            raise InvalidInput(what, location=server, hint="does the image exist?")
        raise SourceUnavailable(what, location=server)

    def _authorization(self, server: str, repository: str, challenge: str) -> str:
        """Return the header that a challenge asks for: https://distribution.github.io/distribution/spec/auth/token/"""
        password = self._passwords(server)
        basic = "Basic " + base64.b64encode(":".join(password).encode()).decode() if password else ""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            return basic
        members = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(members.get("realm", ""))
        if realm.scheme != "https" and realm.hostname not in _LOOPBACK:
            raise SourceDenied("the registry names a token server without TLS", location=server)
        query = {"service": members.get("service", ""), "scope": f"repository:{repository}:pull"}
        answer = _send("GET", f"{realm.geturl()}?{urlencode(query)}", {"Authorization": basic} if basic else {})
        try:
            body = json.loads(answer.body) if answer.status == 200 else {}
            token = body.get("token") or body.get("access_token") or ""
        except (ValueError, AttributeError):
            token = ""
        return f"Bearer {token}"


def _located(image: str) -> tuple[str, str]:
    """Return the URL of the registry and the repository that an image names, as container engines read it."""
    first, slash, rest = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    host = first if is_host else "registry-1.docker.io"
    repository = rest if is_host else image if slash else f"library/{image}"
    if host == "docker.io":
        host = "registry-1.docker.io"
    if not _REPOSITORY.fullmatch(repository):
        raise InvalidInput(f"{image!r} is not the name of an image")
    scheme = "http" if (urlsplit(f"//{host}").hostname or "") in _LOOPBACK else "https"
    return f"{scheme}://{host}", repository


def _send(method: str, url: str, headers: Mapping[str, str]) -> _Answer:
    request = urllib.request.Request(url, method=method, headers={**headers, "User-Agent": f"gitsync/{__version__}"})
    try:
        with open_url(request, _TIMEOUT) as response:
            return _Answer(response.status, response.headers, response.read(_MAX_BYTES))
    except urllib.error.HTTPError as error:
        return _Answer(error.code, error.headers, b"")
    except (OSError, ValueError) as error:
        raise SourceUnavailable("the registry cannot be reached", location=urlsplit(url).netloc) from error


def docker_passwords(file: Path) -> Callable[[str], tuple[str, str] | None]:
    """Return who signs in where, from the config file of a container engine; helpers of it are not run."""

    def password(server: str) -> tuple[str, str] | None:
        try:
            entries = json.loads(file.read_text(encoding="utf-8")).get("auths", {})
            # Docker Hub is listed by the address of its index
            names = ("https://index.docker.io/v1/", "docker.io") if server == "registry-1.docker.io" else (server,)
            text = next((entries[name]["auth"] for name in names if entries.get(name, {}).get("auth")), "")
            user, colon, secret = base64.b64decode(text).decode().partition(":")
        except (OSError, ValueError, AttributeError, TypeError):
            return None
        return (user, secret) if colon else None

    return password
