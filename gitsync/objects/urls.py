"""The normal form of a repository URL, in which URLs of the same repository are equal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

from gitsync.objects.patterns import matches

# Neither user nor host begins with a dash, which ssh would read as an option.
SCP = re.compile(r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*):(?!//)(?P<path>.+)")
"""The short form of an ssh URL: ``user@host:path``."""
_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418, "oci": 443, "helm+https": 443, "helm+http": 80}
CHART_SCHEME = "helm+"
"""What precedes the scheme of a Helm repository in the URL of one of its charts, whose last segment is the chart."""
OCI_SCHEME = "oci://"
_IGNORE_SUFFIX = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
"""Servers at which a repository has the same URL with and without ``.git``; a plain one may have two repositories."""
_PLAIN = "/-._~!$&'()*+,;=:@"
_SHORT_PATTERN = re.compile(r"(?:[^@/:]*@)?(?P<host>[^/:@]+):(?P<path>.+)")
_PATTERN = re.compile(r"(?P<scheme>[A-Za-z*]+)://(?:[^/@]*@)?(?P<host>[^/:]*)(?::(?P<port>\d+|\*))?(?P<path>/.*)?")


def chart_url(repository: str, chart: str) -> str:
    """
    Return the URL of a chart, which names its Helm repository (``helm+https://HOST/PATH/CHART``) or OCI registry too.

    All that belongs to one source is found by one URL, and a Helm repository has many charts. Raise ValueError for a
    repository of another kind.
    """
    if not repository.startswith(("https://", "http://", OCI_SCHEME)):
        raise ValueError(f"{repository[:80]!r} is neither an https:// nor an oci:// URL")
    scheme = "" if repository.startswith(OCI_SCHEME) else CHART_SCHEME
    return f"{scheme}{repository.rstrip('/')}/{chart}"


JOINED_SCHEME = "sources:"
"""What precedes the id of several repositories whose commits are joined; no server is named so."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def joined_source(members: Iterable[tuple[str, str, str]]) -> tuple[str, str]:
    """Return the URL and the revision of several sources as one, from the name, URL and revision of each."""
    listed = list(members)
    repositories = "\n".join(f"{name} {url}" for name, url, _ in listed)
    url = f"{JOINED_SCHEME}{hashlib.sha256(repositories.encode()).hexdigest()[:32]}"
    # no Git ref has a space, and no range a semicolon
    return url, " ".join(f"{name}={revision};" for name, _, revision in listed)


def revisions_of(text: str) -> dict[str, str]:
    """Return the revisions of several sources by their names, as a revision that joins them has them; else nothing."""
    parts = [part.partition("=") for part in text.removesuffix(";").split("; ")]
    is_joined = text.endswith(";") and all(_NAME.fullmatch(name) and revision for name, _, revision in parts)
    return {name: revision for name, _, revision in parts} if is_joined else {}


def is_artifact(url: str) -> bool:
    """Return whether a URL is that of a chart or an OCI artifact, not of a Git repository."""
    return url.startswith((OCI_SCHEME, CHART_SCHEME))


def normalized_url(url: str) -> str:
    """
    Return the normal form: without user, default port, ``.git`` and trailing slash, with the host in small letters.

    A chart has the URL of its Helm repository with its name, as patterns are written for people.

    Raise ValueError for a URL with a query, a fragment, or a path that names another one when normalized: dot
    segments, empty segments, backslashes, percent-encoded separators.
    """
    scp = None if "://" in url else SCP.fullmatch(url)
    if scp:
        return _joined("ssh", scp["host"], None, "/" + _clean(scp["path"].removeprefix("/")))
    parts = urlsplit(url)
    # By text: ``urlsplit`` does not distinguish an empty query from none.
    if "?" in url or "#" in url:
        raise ValueError("a query or fragment")
    scheme = parts.scheme.lower().removeprefix(CHART_SCHEME) or "file"
    return _joined(scheme, parts.hostname or "", parts.port, "/" + _clean(parts.path.removeprefix("/")))


def repository_key(url: str) -> str:
    """
    Return a text that is equal for URLs by which a server gives the same repository to the same user.

    Neither case and port of the host, a trailing slash, nor ``.git`` at servers that ignore it make a difference.
    """
    parts = urlsplit(url) if "://" in url else None
    if parts is None or parts.scheme.lower() not in _PORTS:
        return url
    user, at, _ = parts.netloc.rpartition("@")
    # "github.com." is the same host as an absolute name
    host = (parts.hostname or "").rstrip(".")
    scheme = parts.scheme.lower()
    path = parts.path.rstrip("/")
    if host in _IGNORE_SUFFIX:
        path = path.removesuffix(".git")
    # The user stays: a server may give another user another repository.
    return _joined(scheme, host, parts.port, path).replace("://", f"://{user}{at}", 1)


def matches_url(pattern: str, url: str) -> bool:
    """
    Return whether a pattern with ``*`` matches a URL, in whatever way both are written.

    ``*`` in the host matches no ``/``. A URL without a normal form matches no pattern.
    """
    try:
        normalized = normalized_url(url)
    except ValueError:
        return False
    short = None if "://" in pattern else _SHORT_PATTERN.fullmatch(pattern)
    full = _PATTERN.fullmatch(f"ssh://{short['host']}/{short['path']}" if short else pattern)
    if full is None:
        return matches(normalized, pattern)
    scheme = full["scheme"].lower()
    host = full["host"].lower()
    port = full["port"] or ""
    path = full["path"]
    # ``https://*`` is meant to match every repository, not only a URL without a path.
    if path is None and host.endswith("*"):
        path = "*"
    authority = f"{scheme}://{host}" + (f":{port}" if port and port != str(_PORTS.get(scheme)) else "")
    start, _, rest = normalized.partition("://")
    server, _, name = rest.partition("/")
    tail = (path or "").removeprefix("/").rstrip("/").removesuffix(".git")
    # Apart: ``https://*.example.com/x`` must not match ``https://evil/.example.com/x``.
    return matches(f"{start}://{server}", authority) and matches(name, tail)


def _joined(scheme: str, host: str, port: int | None, path: str) -> str:
    host = host.lower().rstrip(".")
    # ``urlsplit`` removes the brackets of an IPv6 address
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" + (f":{port}" if port and port != _PORTS.get(scheme) else "") + path


def _clean(path: str) -> str:
    """Return a path without what does not change its meaning; raise ValueError where normalizing changes it."""
    decoded = unquote(path, errors="strict")
    # A "%" that is left was encoded twice: the server may decode it to a separator that is not visible here.
    if "%" in decoded or decoded.count("/") != path.count("/") or "\\" in decoded:
        raise ValueError("a path with percent-encoded separators or backslashes")
    stem = decoded.removesuffix("/").removesuffix(".git")
    if any(part in ("", ".", "..") for part in stem.split("/")) and stem:
        raise ValueError("a path with empty or dot segments")
    return quote(stem, safe=_PLAIN)
