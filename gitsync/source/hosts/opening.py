"""Find the API of a repository's host, and sign in there with the credentials that git uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.objects.urls import SCP
from gitsync.ports import Credentials
from gitsync.ports.hosts import CodeHost
from gitsync.source.authentication import certificates
from gitsync.source.github_app import api_of
from gitsync.source.hosts.connection import ApiConnection
from gitsync.source.hosts.gitlab import GitLab
from gitsync.source.hosts.rest import HEADERS, Gitea, GitHub
from gitsync.source.remote import Transport


class ApiHosts:
    """Implement ``CodeHosts``; the API of a host gets credentials where git may send them by the ``transport``."""

    def __init__(self, transport: Transport | None = None) -> None:
        self._transport = transport or Transport()

    def host_of(self, source: GitSource, kind: str, credentials: Credentials) -> CodeHost:
        """Return the repository of a source at its host; see the port."""
        page = page_url(source.repo_url)
        trusted = partial(certificates, credentials, self._transport.ca_file)
        authorization = self._authorization(page, kind, credentials)
        if kind == "GitLab":
            # groups may contain groups, so that all of the path is the project: no path of the server precedes it
            server, _, project = page.partition("://")[2].partition("/")
            api = f"{urlsplit(page).scheme}://{server}/api/v4"
            return GitLab(ApiConnection(api, authorization, trusted, {}), project)
        base, repository = _divided(page)
        if kind == "GitHub":
            # only of the URL that the Application names: a Secret names no API that would receive the token
            connection = ApiConnection(api_of(page), authorization, trusted, HEADERS)
            return GitHub(connection, repository, credentials.app_id if credentials.app_key else "")
        if kind == "Gitea":
            return Gitea(ApiConnection(f"{base}/api/v1", authorization, trusted, {}), repository)
        raise InvalidInput(f"{kind!r} is not a known Git host", location="spec.pullRequests.host")

    def _authorization(self, page: str, kind: str, credentials: Credentials) -> Callable[[], str]:
        word = "token" if kind == "Gitea" else "Bearer"

        def header() -> str:
            self._transport.check_sign_in(page, credentials)
            token = credentials.token or self._transport.signed_in(page, credentials).password
            return f"{word} {token}" if token else ""

        return header


def page_url(url: str) -> str:
    """Return the URL of a repository by HTTP, also of one that git reaches by SSH; raise InvalidInput for a file."""
    scp = None if "://" in url else SCP.fullmatch(url)
    if scp:
        return f"https://{scp['host']}/{scp['path'].strip('/').removesuffix('.git')}"
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("https", "http", "ssh") or not host:
        raise InvalidInput(
            "the repository is at no Git host", location="spec.source.repoURL", hint="give its https URL"
        )
    # the port of SSH is not that of the API
    port = f":{parts.port}" if parts.port and parts.scheme != "ssh" else ""
    scheme = "https" if parts.scheme == "ssh" else parts.scheme
    return f"{scheme}://{host}{port}/{parts.path.strip('/').removesuffix('.git')}"


def _divided(page: str) -> tuple[str, str]:
    """Return the URL of a server and ``owner/name`` of the repository: what precedes these two is the server's path."""
    base, _, name = page.rpartition("/")
    base, _, owner = base.rpartition("/")
    if not owner or not name or base.endswith((":/", ":")):
        raise InvalidInput("the URL has no owner and name", location="spec.source.repoURL")
    return base, f"{owner}/{name}"
