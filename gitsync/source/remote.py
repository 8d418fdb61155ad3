"""Remote: one repository at a Git server; what it lists, sends and takes, and how many requests that costs."""

from __future__ import annotations

import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from prometheus_client import Counter

from gitsync.errors import SourceUnavailable
from gitsync.objects.urls import SCP
from gitsync.ports import Credentials
from gitsync.source.authentication import StayOnHost, authenticated_env, authorization_of, certificates, key_failure
from gitsync.source.damage import local_failure
from gitsync.source.git import REMOTE, GitFailed, OutputTooLarge, can_leave_out_files, run
from gitsync.source.github_app import InstallationTokens
from gitsync.source.quarantine import largest_file, quarantine
from gitsync.source.refs import HEADS
from gitsync.source.server_errors import server_error
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import SAFE_SCHEMES, shown_url

_REDIRECT = re.compile(r"returned error: 30[1278]")
_OUT_OF_MEMORY = re.compile(r"[Oo]ut of memory|Cannot allocate memory")
_SHALLOW = "shallow roots are not allowed"
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
# files that one command fetches by their ids
_BATCH = 1000
# seconds that the list of refs may take
_LISTING = 10.0
_FILTER_REFUSED = re.compile(r"remote error: filter '|filter(?:ing)? .*not supported")
# the repository of commands that need none: a damaged mirror must not hide what the server answers
_NOWHERE = Path(os.devnull)


class _FilterRefused(Exception):
    """The server offers to leave out files, but not by their size."""


@dataclass(frozen=True, slots=True)
class Transport:
    """How Git servers are reached: the allowed schemes, the limits, and the operator's certificates (PEM)."""

    schemes: tuple[str, ...] = tuple(sorted(SAFE_SCHEMES))
    limits: SourceLimits = field(default_factory=SourceLimits)
    ca_file: Path | None = None
    tokens: InstallationTokens = field(default_factory=InstallationTokens)

    def signed_in(self, url: str, credentials: Credentials) -> Credentials:
        """Return credentials that git can use; those of a GitHub App are exchanged for a token."""
        return self.tokens.signed_in(url, credentials, self.ca_file)


class Remote:
    """
    One repository at a Git server.

    Redirects on the same host are followed to read, never to another host, which would receive the credentials.
    """

    def __init__(self, url: str, transport: Transport) -> None:
        self._url = url
        self._transport = transport
        self._redirected = ""

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return shown_url(self._url)

    def list_refs(self, credentials: Credentials) -> dict[str, str]:
        """Return the branches and tags of the server, by full name, as object ids."""
        credentials = self._transport.signed_in(self._url, credentials)
        try:
            arguments = ("ls-remote", "--heads", "--tags", REMOTE)
            listing = self._run(
                _NOWHERE, credentials, *arguments, seconds=_LISTING, max_output=self._transport.limits.refs_bytes
            )
        except OutputTooLarge as error:
            limit = self._transport.limits.refs_bytes >> 20
            raise SourceUnavailable(
                f"the Git server lists branches and tags of more than {limit} MiB",
                location=self.shown,
                hint="delete those that are not used any more",
            ) from error
        except GitFailed as error:
            was_redirected = self._redirected
            self._redirected = ""  # the repository may have moved back
            if was_redirected or (_REDIRECT.search(str(error)) and self._redirect(credentials)):
                return self.list_refs(credentials)
            raise self._error(str(error), credentials) from error
        lines = (line.split("\t", 1) for line in listing.decode(errors="replace").splitlines())
        refs = {name: oid for oid, name in lines}
        if not refs:  # an empty repository, or a sign-in page that answers 200
            self._reject_web_page(credentials)
        return refs

    def fetch(self, git_dir: Path, wanted: str, credentials: Credentials, *, is_new: bool = False) -> None:
        """
        Fetch a ref or a commit into a mirror, objects only; raise Damaged when the mirror is why that failed.

        Into a new mirror, large files are not fetched where the server can leave them out. Of a damaged one, git would
        fetch each missing object by itself. Refs of the server's names could conflict with those of earlier fetches.
        """
        if is_new and can_leave_out_files():
            filter = f"blob:limit={self._transport.limits.first_bytes + 1}"
            settings = {f"remote.{REMOTE}.promisor": "true", f"remote.{REMOTE}.partialclonefilter": filter}
            try:  # a server may offer filters, but not this one: uploadpackfilter.FILTER.allow in git-config(1)
                return self._receive(git_dir, credentials, (f"--filter={filter}", REMOTE, wanted), settings)
            except _FilterRefused:
                pass
        return self._receive(git_dir, credentials, (REMOTE, wanted))

    def fetch_files(self, git_dir: Path, ids: Sequence[str], credentials: Credentials) -> None:
        """Fetch files by their ids; InvalidInput where the server serves none so."""
        # else the server would take them for present, as parts of the commits that are
        settings = {"fetch.negotiationAlgorithm": "noop"}
        for start in range(0, len(ids), _BATCH):
            self._receive(git_dir, credentials, (REMOTE, *ids[start : start + _BATCH]), settings)

    def _receive(
        self,
        git_dir: Path,
        credentials: Credentials,
        arguments: Sequence[str],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        limits = self._transport.limits
        credentials = self._transport.signed_in(self._url, credentials)
        with quarantine(git_dir) as env:
            try:
                self._run(git_dir, credentials, *_FETCH, *arguments, env=env, settings=settings, fails_on=_SHALLOW)
            except GitFailed as error:
                text = str(error)
                if arguments[0].startswith("--filter") and _FILTER_REFUSED.search(text):
                    raise _FilterRefused from error
                if largest_file(git_dir) >= limits.pack_bytes:  # git only reports that it could not write
                    raise self._too_large() from error
                if _OUT_OF_MEMORY.search(text):
                    raise self._needs_memory() from error
                raise local_failure(git_dir, text, limits.seconds) or self._error(text, credentials) from error

    def push(self, git_dir: Path, commit: str, branch: str, credentials: Credentials) -> None:
        """Push a commit to a branch, never by force; raise GitFailed when the server refuses it."""
        self._redirected = ""  # a POST with a pack is not sent to where a redirect leads
        credentials = self._transport.signed_in(self._url, credentials)
        self._run(git_dir, credentials, "push", "--quiet", REMOTE, f"{commit}:{HEADS}{branch}")

    def _run(
        self,
        git_dir: Path,
        credentials: Credentials,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        fails_on: str = "",
        seconds: float = float("inf"),
        max_output: int = 0,
    ) -> bytes:
        transport = self._transport
        url = self._redirected or self._url
        with (
            counted(url, arguments),
            authenticated_env(url, credentials, transport.schemes, transport.ca_file, settings) as ours,
        ):
            return run(
                git_dir,
                *arguments,
                env={**ours, **(env or {})},
                timeout=min(seconds, transport.limits.seconds),
                max_file_bytes=transport.limits.pack_bytes,
                max_memory_bytes=transport.limits.memory_bytes,
                max_output=max_output,
                is_guarded=True,
                fails_on=fails_on,
            )

    def _redirect(self, credentials: Credentials) -> bool:
        """Follow a redirect on the same host; raise SourceUnavailable with the new URL for any other."""
        with certificates(credentials, self._transport.ca_file) as ca_file:
            location = probe(self._url, authorization_of(self._url, credentials), ca_file).location
        if location and is_same_host(self._url, location):
            self._redirected = location
            return True
        if location:
            raise SourceUnavailable(
                f"the repository has moved to {shown_url(location)}",
                location=self.shown,
                hint="set spec.source.repoURL to it; credentials are sent to no other host",
            )
        return False

    def _reject_web_page(self, credentials: Credentials) -> None:
        """Raise SourceUnavailable where an answer without refs is not one of a Git server."""
        if not self._url.startswith(("http:", "https:")):
            return
        url = self._redirected or self._url
        with certificates(credentials, self._transport.ca_file) as ca_file:
            if not probe(url, authorization_of(url, credentials), ca_file).is_git:
                raise self._error("info/refs not valid", credentials)

    def _error(self, text: str, credentials: Credentials) -> Exception:
        if "Permission denied" in text and credentials.ssh_key:
            text = f"{key_failure(credentials.ssh_key)}\n{text}"
        return server_error(text, self.shown, self._url)

    def _needs_memory(self) -> SourceUnavailable:
        limit = self._transport.limits.memory_bytes >> 20
        return SourceUnavailable(
            f"git needs more memory for the pack of the Git server than the limit of {limit} MiB",
            location=self.shown,
            hint="remove large files from its history, or raise GITSYNC_GIT_MEMORY",
        )

    def _too_large(self) -> SourceUnavailable:
        limit = self._transport.limits.pack_bytes
        return SourceUnavailable(
            f"the Git server sends a pack of more than the limit of {limit} bytes",
            location=self.shown,
            hint="remove large files from its history, or raise GITSYNC_GIT_PACK",
        )


_SERVICE = "/info/refs?service=git-upload-pack"
_SMART = "application/x-git-upload-pack-advertisement"
# seconds that the server may take
_TIMEOUT = 15.0


class HttpAnswer(NamedTuple):
    """Where a repository's URL redirects, empty where it does not, and whether the server answers as a Git server."""

    location: str = ""
    is_git: bool = True


def probe(url: str, authorization: str, ca_file: str) -> HttpAnswer:
    """Return what a server answers for a repository; a server that fails counts as one for Git."""
    context = ssl.create_default_context(cafile=ca_file or None)
    opener = urllib.request.build_opener(StayOnHost, urllib.request.HTTPSHandler(context=context))
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
    first = urlsplit(url)
    second = urlsplit(other)
    return (first.scheme, first.hostname, first.port) == (second.scheme, second.hostname, second.port)


_REQUESTS = Counter("gitsync_git_requests", "Requests to Git servers", ["host", "operation", "outcome"])
_OPERATIONS = ("ls-remote", "fetch", "push")


def host_of(url: str) -> str:
    """Return the host of a URL in small letters, ``file`` where it has none; without user, password and path."""
    short = SCP.fullmatch(url)
    host = short["host"] if short else urlsplit(url).hostname
    return (host or "file").lower()


@contextmanager
def counted(url: str, arguments: Sequence[str]) -> Iterator[None]:
    """Count a run of git by its arguments, as failed where it raises."""
    operation = next(argument for argument in arguments if argument in _OPERATIONS)
    try:
        yield
    except BaseException:  # also where the process is being stopped
        _REQUESTS.labels(host_of(url), operation, "Failed").inc()
        raise
    _REQUESTS.labels(host_of(url), operation, "Succeeded").inc()
