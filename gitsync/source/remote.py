"""Remote: one repository at a Git server; what it lists, sends and takes, and how many requests that costs."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from prometheus_client import Counter

from gitsync.errors import InvalidInput, SourceThrottled, SourceUnavailable
from gitsync.objects.urls import SCP
from gitsync.ports import Credentials
from gitsync.source.authentication import (
    StayOnHost,
    authorization_of,
    certificates,
    key_failure,
    proxies,
    server_access,
    trusted_certificates,
    without_user,
)
from gitsync.source.connections import GitConnections
from gitsync.source.git import REMOTE, GitFailed, OutputTooLarge, can_leave_out_files, environment, run
from gitsync.source.github_app import InstallationTokens
from gitsync.source.landlock import Confinement
from gitsync.source.left_out import left_out
from gitsync.source.protocol import (
    AGENT,
    GitAccess,
    NotSpoken,
    ProtocolClient,
    ReceivedPack,
    ServerRefused,
    retry_after,
)
from gitsync.source.quarantine import largest_file, quarantine
from gitsync.source.refs import HEADS, RefListing
from gitsync.source.server_errors import local_failure, server_error
from gitsync.source.snapshot import SourceLimits
from gitsync.source.validation import NO_PLAIN_HOSTS, SAFE_SCHEMES, PlainHosts, shown_url

_REDIRECT = re.compile(r"returned error: 30[1278]")
_OUT_OF_MEMORY = re.compile(r"[Oo]ut of memory|Cannot allocate memory")
_SHALLOW = "shallow roots are not allowed"
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
# Bytes of a pack that is held in memory until it is unpacked; git receives larger ones. A commit of manifests takes
# some KiB, and a tenant may push one that takes what it likes.
_MAX_PACK = 1 << 20
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
    """
    How Git servers are reached: the allowed schemes, the limits, and the operator's certificates (PEM).

    ``plain`` are the hosts that are reached over HTTP although that scheme is not allowed. What a server sends is read
    by programs under the ``confinement``.
    """

    schemes: tuple[str, ...] = tuple(sorted(SAFE_SCHEMES))
    plain: PlainHosts = NO_PLAIN_HOSTS
    limits: SourceLimits = field(default_factory=SourceLimits)
    ca_file: Path | None = None
    tokens: InstallationTokens = field(default_factory=InstallationTokens)
    connections: GitConnections = field(default_factory=GitConnections)
    confinement: Confinement = field(default_factory=Confinement)

    def check_sign_in(self, url: str, credentials: Credentials) -> None:
        """Raise InvalidInput for credentials that would go without TLS to a host that the operator did not name."""
        is_plain = urlsplit(url).scheme == "http" and "http" not in self.schemes
        if is_plain and credentials != Credentials() and not self.plain.allow_credentials(url):
            raise InvalidInput(
                f"credentials are not sent to {host_of(url)} without TLS",
                location="spec.source.credentials",
                hint="use https, remove the credentials, or name the host in GITSYNC_GIT_HTTP_SIGN_IN",
            )

    def signed_in(self, url: str, credentials: Credentials) -> Credentials:
        """Return credentials that git can use where it may: those of a GitHub App are exchanged for a token."""
        self.check_sign_in(url, credentials)
        return self.tokens.signed_in(url, credentials, self.ca_file)

    def schemes_of(self, url: str) -> tuple[str, ...]:
        """Return the schemes that may be used for a URL."""
        return (*self.schemes, "http") if self.plain.allow(url) else self.schemes


class Remote:
    """
    One repository at a Git server.

    Redirects on the same host are followed to read, never to another host, which would receive the credentials.
    """

    def __init__(self, url: str, transport: Transport) -> None:
        self._url = url
        self._transport = transport
        self._redirected = ""
        self._protocol = ProtocolClient(transport.connections)

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return shown_url(self._url)

    def list_refs(self, credentials: Credentials) -> RefListing:
        """Return the branches and tags of the server."""
        credentials = self._transport.signed_in(self._url, credentials)
        try:
            refs = self._listed(credentials)
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
            raise self._error(error, credentials) from error
        return refs

    def _listed(self, credentials: Credentials) -> RefListing:
        """Return the refs by an open connection, else by git; raise GitFailed, GitTimedOut, OutputTooLarge."""
        limit = self._transport.limits.refs_bytes
        with contextlib.suppress(NotSpoken), self._access(credentials) as access, counted(access.url, "ls-remote"):
            return self._protocol.list_refs(access, min(_LISTING, self._transport.limits.seconds), limit)
        arguments = ("ls-remote", "--heads", "--tags", REMOTE)
        listing = self._run(_NOWHERE, credentials, *arguments, seconds=_LISTING, max_output=limit)
        refs = RefListing(listing.decode(errors="replace"))
        if not refs:  # an empty repository, or a sign-in page that answers 200
            self._reject_web_page(credentials)
        return refs

    @contextlib.contextmanager
    def _access(self, credentials: Credentials) -> Iterator[GitAccess]:
        """Yield how the repository is reached without git; raise NotSpoken where only git can."""
        url = self._redirected or self._url
        parts = urlsplit(url)
        # curl reads more kinds of proxies, and lists of hosts that need none
        if (
            parts.scheme not in self._transport.schemes
            or parts.scheme not in ("http", "https")
            or proxies().keys() - {"no_proxy"}
        ):
            raise NotSpoken("no plain HTTP")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise NotSpoken("a URL that has to be encoded")
        authorities = trusted_certificates(credentials, self._transport.ca_file)
        yield GitAccess(without_user(url), authorization_of(url, credentials), authorities)

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

    def fetch_commit(self, git_dir: Path, commit: str, haves: Sequence[str], credentials: Credentials) -> bool:
        """
        Fetch a commit into a mirror that has earlier ones, by an open connection; objects only.

        Return False where git has to do it: it negotiates, streams large packs, and says what is wrong.
        """
        if not haves:
            return False
        credentials = self._transport.signed_in(self._url, credentials)
        limits = self._transport.limits
        try:
            with self._access(credentials) as access, counted(access.url, "fetch"):
                # a file that was left out is here for the server, and would be the base of what it sends
                thin = not left_out(git_dir)
                max_bytes = min(_MAX_PACK, limits.pack_bytes)
                pack = self._protocol.fetch(access, commit, haves, limits.seconds, max_bytes, thin=thin)
        except (NotSpoken, OutputTooLarge):
            return False
        except GitFailed as error:
            raise self._error(error, credentials) from error
        return self._unpacked(git_dir, pack, commit)

    def _unpacked(self, git_dir: Path, pack: ReceivedPack, commit: str) -> bool:
        """Admit a pack to a mirror; return False, with nothing of it there, where it is not the whole of a commit."""
        limits = self._transport.limits
        confinement = self._transport.confinement
        # as git chooses between them (fetch.unpackLimit in git-config(1))
        unpack = ("unpack-objects", "-q") if pack.is_small else ("index-pack", "--stdin", "--fix-thin")
        connected = ("rev-list", "--objects", "--quiet", commit, "--not", "--all")
        try:
            with quarantine(git_dir) as quarantined:
                env = {**environment(()), **quarantined}
                run(
                    git_dir,
                    *unpack,
                    env=env,
                    stdin=pack.content,
                    timeout=limits.seconds,
                    max_file_bytes=limits.pack_bytes,
                    max_memory_bytes=limits.memory_bytes,
                    confinement=confinement,
                )
                # a server may send a part only; what is here of the commit would count as all of it
                run(git_dir, *connected, env=env, timeout=limits.seconds, confinement=confinement)
        except GitFailed:
            return False
        return True

    def fetch_refs(self, git_dir: Path, names: Sequence[str], credentials: Credentials) -> None:
        """Fetch what branches and tags name into a mirror, objects only."""
        for start in range(0, len(names), _BATCH):
            self._receive(git_dir, credentials, (REMOTE, *names[start : start + _BATCH]))

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
                failure = local_failure(git_dir, text, limits.seconds, self._transport.confinement)
                raise failure or self._error(error, credentials) from error

    def push(self, git_dir: Path, commit: str, branch: str, credentials: Credentials) -> None:
        """Push a commit to a branch, never by force; raise GitFailed when the server refuses it."""
        self._redirected = ""  # a POST with a pack is not sent to where a redirect leads
        credentials = self._transport.signed_in(self._url, credentials)
        self._run(git_dir, credentials, "push", "--quiet", REMOTE, f"{commit}:{HEADS}{branch}")

    def delete_branch(self, git_dir: Path, branch: str, head: str, credentials: Credentials) -> None:
        """Delete a branch that has this head; raise GitFailed when it has another one, or the server refuses it."""
        self._redirected = ""
        credentials = self._transport.signed_in(self._url, credentials)
        name = f"{HEADS}{branch}"
        # with the head that is expected: a commit that a user has added meanwhile is never lost
        self._run(git_dir, credentials, "push", "--quiet", f"--force-with-lease={name}:{head}", REMOTE, f":{name}")

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
        operation = next(argument for argument in arguments if argument in _OPERATIONS)
        with (
            counted(url, operation),
            server_access(url, credentials, transport.schemes_of(url), transport.ca_file, settings) as access,
        ):
            return run(
                git_dir,
                *arguments,
                env={**access.env, **(env or {})},
                inherited=access.files,
                timeout=min(seconds, transport.limits.seconds),
                max_file_bytes=transport.limits.pack_bytes,
                max_memory_bytes=transport.limits.memory_bytes,
                max_output=max_output,
                is_guarded=True,
                confinement=self._confinement(url, operation),
                fails_on=fails_on,
            )

    def _confinement(self, url: str, operation: str) -> Confinement | None:
        """Return what confines git while it talks to a server, None where it could not do its work."""
        if urlsplit(url).scheme != "file":
            return self._transport.confinement
        # the server is this machine: its repositories may be anywhere, and a push changes one
        return Confinement() if operation != "push" else None

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
                raise self._error(GitFailed("info/refs not valid"), credentials)

    def _error(self, failure: GitFailed, credentials: Credentials) -> Exception:
        text = str(failure)
        if "Permission denied" in text and credentials.ssh_key:
            text = f"{key_failure(credentials.ssh_key)}\n{text}"
        error = server_error(text, self.shown, self._url)
        if isinstance(failure, ServerRefused) and isinstance(error, SourceUnavailable):
            error.retry_after = failure.retry_after
        elif isinstance(error, SourceThrottled) and self._url.startswith(("http:", "https:")):
            # git does not print the header: one more request, whose answer has it while the server still throttles
            with certificates(credentials, self._transport.ca_file) as ca_file:
                answer = probe(self._url, authorization_of(self._url, credentials), ca_file)
            error.retry_after = answer.retry_after
        return error

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
    """
    What a server answers for a repository.

    Where its URL redirects, empty where it does not; whether it answers as a Git server; and the delay in seconds that
    it asks for, None without.
    """

    location: str = ""
    is_git: bool = True
    retry_after: float | None = None


def probe(url: str, authorization: str, ca_file: str) -> HttpAnswer:
    """Return what a server answers for a repository; a server that fails counts as one for Git."""
    context = ssl.create_default_context(cafile=ca_file or None)
    opener = urllib.request.build_opener(StayOnHost, urllib.request.HTTPSHandler(context=context))
    headers = {"User-Agent": AGENT, **({"Authorization": authorization} if authorization else {})}
    target = url.rstrip("/") + _SERVICE
    try:
        with opener.open(urllib.request.Request(target, headers=headers), timeout=_TIMEOUT) as answer:
            return HttpAnswer(is_git=answer.headers.get_content_type() == _SMART)
    except urllib.error.HTTPError as error:
        with error:
            delay = retry_after(error.headers.get("Retry-After", ""))
            return HttpAnswer(_repository(target, error.headers.get("Location", "")), retry_after=delay)
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


@contextlib.contextmanager
def counted(url: str, operation: str) -> Iterator[None]:
    """Count an operation, as failed where it raises; not where git is about to repeat it."""
    try:
        yield
    except NotSpoken:
        raise
    except BaseException:  # also where the process is being stopped
        _REQUESTS.labels(host_of(url), operation, "Failed").inc()
        raise
    _REQUESTS.labels(host_of(url), operation, "Succeeded").inc()
