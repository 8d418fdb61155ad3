"""
References to other Git repositories, as Kustomize reads them from ``resources``, ``bases`` and ``components``, and to
charts that ``helmCharts`` names.

Source: Kustomize's documentation of remote targets and its rules for URLs (api/internal/git/repospec.go): ``//`` or
``.git`` or ``_git/NAME`` ends the repository, else its first two path segments do; ``?ref=``, before it ``?version=``,
names a revision. Single files have the URLs by which GitHub, GitLab, Gitea and Forgejo serve them raw.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gitsync.objects.urls import CHART_SCHEME, chart_url, is_artifact

_SCHEME = re.compile(r"(?:https?|ssh|file)://", re.IGNORECASE)
_USER = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*@")
_GITHUB = re.compile(r"github\.com[/:]", re.IGNORECASE)
_AZURE = "_git/"
_REPOSITORY = r"(?P<repository>[^/?]+/[^/?]+)"
_FILE = r"/(?P<path>[^?]+\.(?:yaml|yml|json))$"
_NAMED = r"(?P<revision>refs/(?:tags|heads)/[^/?]+|[^/?]+)"
_RAW = (
    rf"(?P<host>https://)raw\.githubusercontent\.com/{_REPOSITORY}/{_NAMED}{_FILE}",
    rf"(?P<host>https://github\.com/){_REPOSITORY}/raw/{_NAMED}{_FILE}",
    rf"(?P<host>https?://[^/?]+/)(?P<repository>[^?]+?)/-/raw/{_NAMED}{_FILE}",
    rf"(?P<host>https?://[^/?]+/){_REPOSITORY}/raw/(?:tag|commit)/(?P<revision>[^/?]+){_FILE}",
)
"""URLs of files as GitHub, GitLab, and Gitea and Forgejo serve them; the name of a revision has no slash."""
_LONGEST = 2048
"""Characters of such a URL: the time to match is quadratic in them."""


class RemoteReference(NamedTuple):
    """
    A folder or file in another repository: the URL, a branch, tag or commit (empty where none is named), and the path.
    """

    url: str
    revision: str
    path: str
    is_file: bool = False

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return without_user(self.url).removeprefix(CHART_SCHEME)

    @property
    def is_chart(self) -> bool:
        """Whether it is a chart of a Helm repository or OCI registry, whose revision is a version or range."""
        return is_artifact(self.url)


def without_user(url: str) -> str:
    """Return a URL without user and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def parse_remote_file(text: str) -> RemoteReference | None:
    """Return the file of a Git repository that a URL names as its host serves it raw, None for any other URL."""
    for pattern in _RAW if len(text) <= _LONGEST else ():
        if url := re.match(pattern, text, re.IGNORECASE):
            # Trees are read by clean paths: such a part would name another file, or one outside.
            if {"", ".", ".."}.intersection(url["path"].split("/")):
                return None
            # raw.githubusercontent.com serves single files; the repository itself is at github.com.
            host = "https://github.com/" if url["host"].lower() == "https://" else url["host"].lower()
            return RemoteReference(host + url["repository"], url["revision"], url["path"], is_file=True)
    return None


_CHART = "chart:"
"""The beginning of a reference that ``helmCharts`` makes; no path and no URL of a repository has it."""


def chart_reference(repository: str, chart: str, version: str) -> str:
    """Return the reference to a chart of a Helm repository or OCI registry; raise ValueError for another URL."""
    return f"{_CHART}{chart_url(repository, chart)}?{version}"


def parse_remote(text: str) -> RemoteReference | None:
    """Return what a reference names, None where it names neither a Git repository nor a chart."""
    if text.startswith(_CHART):
        url, _, version = text.removeprefix(_CHART).partition("?")
        return RemoteReference(url, version, "")
    if file := parse_remote_file(text):
        return file
    address, _, query = text.partition("?")
    # The prefix of go-getter, which Kustomize used before and still accepts.
    address = re.sub(r"^git::", "", address, flags=re.IGNORECASE)
    scheme, rest = _split(_SCHEME, address)
    user, rest = _split(_USER, rest)
    is_github = bool(_GITHUB.match(rest))
    is_short = not scheme
    if is_short and not user and not is_github:
        return None
    if scheme.lower() == "file://":
        # A file URL has no host, and what precedes an @ in it is part of a folder's name.
        host = scheme
        rest = user + rest
    else:
        host_match = re.match(r"[^/:]*[/:]" if is_short else r"[^/]*/", rest)
        if host_match is None:
            return None
        host = f"{scheme.lower()}{user}{host_match.group()}"
        rest = rest[host_match.end() :]
    # All spellings of github.com become one, as Kustomize does: one mirror for one repository.
    if is_github:
        host = f"{user}github.com:" if user or scheme.lower() == "ssh://" else "https://github.com/"
    repository, path = _divide(rest, is_whole=host == "file://")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not repository or ".." in parts:
        return None
    from urllib.parse import parse_qs  # late: few builds name other repositories

    values = parse_qs(query)
    revision = (values.get("ref") or values.get("version") or [""])[0]
    return RemoteReference(host + repository, revision, "/".join(parts))


def _split(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """Return what a pattern matches at the start of a text, and the rest."""
    prefix = pattern.match(text)
    return (prefix.group(), text[prefix.end() :]) if prefix else ("", text)


def _divide(text: str, *, is_whole: bool) -> tuple[str, str]:
    """Return the path of the repository and the path in it."""
    if _AZURE in text:
        start = text.index(_AZURE) + len(_AZURE)
        name, _, path = text[start:].partition("/")
        return text[:start] + name, path
    for end, kept in (("//", ""), (".git", ".git")):
        if end in text:
            repository, _, path = text.partition(end)
            return repository + kept, path
    segments = text.split("/")
    # Folders on a disk are nested as deep as they like: only ``//`` or ``.git`` can end the repository.
    if is_whole:
        return text, ""
    return ("/".join(segments[:2]), "/".join(segments[2:])) if len(segments) >= 2 else ("", "")


def mount_path(url: str, commit: str) -> str:
    """Return where the files of another repository are among those of a build; no path in a repository is like it."""
    host = re.sub(r"^[a-z+]+://|^[^/@]*@|(?<=//)[^/@]*@", "", url).replace(":", "/").strip("/")
    return f"{host}@{commit[:12]}"
