"""One HTTP request to a Git server, where git does not say what the server answered: redirects and web pages."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

_SERVICE = "/info/refs?service=git-upload-pack"
_SMART = "application/x-git-upload-pack-advertisement"
_TIMEOUT = 15.0
"""Seconds that the server may take."""


class HttpAnswer(NamedTuple):
    """Where a repository's URL redirects, empty where it does not, and whether the server answers as a Git server."""

    location: str = ""
    is_git: bool = True


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect: the credentials are for the first host only."""


def probe(url: str, authorization: str, ca_file: str) -> HttpAnswer:
    """Return what a server answers for a repository; a server that fails counts as one for Git."""
    context = ssl.create_default_context(cafile=ca_file or None)
    opener = urllib.request.build_opener(_Stay, urllib.request.HTTPSHandler(context=context))
    headers = {"User-Agent": "git/2", **({"Authorization": authorization} if authorization else {})}
    target = url.rstrip("/") + _SERVICE
    try:
        with opener.open(urllib.request.Request(target, headers=headers), timeout=_TIMEOUT) as answer:
            return HttpAnswer(is_git=answer.headers.get_content_type() == _SMART)
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(_repository(target, error.headers.get("Location", "")))
    except (OSError, http.client.HTTPException):
        return HttpAnswer()


def _repository(target: str, location: str) -> str:
    """Return the URL of the repository that a redirect of its refs leads to, or of the page that it leads to."""
    return urljoin(target, location).removesuffix(_SERVICE) if location else ""


def is_same_host(url: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    first, second = urlsplit(url), urlsplit(other)
    return (first.scheme, first.hostname, first.port) == (second.scheme, second.hostname, second.port)
