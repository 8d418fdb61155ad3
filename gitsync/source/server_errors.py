"""
Failures of git as errors that name the fix: what a Git server answered, and what is wrong on this machine.

The latter are a damaged mirror, or a disk that cannot be written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from gitsync.errors import InvalidInput, SourceDenied, SourceThrottled, SourceUnavailable, SourceUntrusted
from gitsync.objects.urls import SCP
from gitsync.ports import CREDENTIALS_SECRET as SECRET
from gitsync.source.git import GitFailed, environment, run
from gitsync.source.landlock import Confinement

_BROKEN = (
    *("corrupt", "bad object", "missing blob", "missing tree", "not a valid object", "inflate", "garbage"),
    *(
        "unable to read",
        "unable to parse",
        "unable to unpack",
        "loose object",
        "packfile the mirror",
        "mismatched algorithms",
        "unresolved delta",  # against a file that was left out
    ),
)
# what fsck prints of missing files: some were left out on purpose, a damaged one is found when it is read
_WITHOUT_FILES = re.compile(r"missing blob |broken link from +tree |\s+to +blob |notice: ")
_FULL = ("No space left on device", "Disk quota exceeded", "Read-only file system")


class Damaged(SourceUnavailable):
    """The mirror is damaged and has to be rebuilt."""

    def __init__(
        self, message: str = "the mirror is damaged", *, location: str = "", hint: str = "it is rebuilt automatically"
    ) -> None:
        super().__init__(message, location=location, hint=hint)


def unusable(reason: str) -> SourceUnavailable:
    """Return the error of a mirror that cannot be written."""
    return SourceUnavailable(
        f"the mirror of the repository cannot be written: {reason}",
        hint="free space in the data folder of the controller (GITSYNC_DATA), or enlarge its volume",
    )


def disk_failure(text: str) -> SourceUnavailable | None:
    """Return the error of a disk that cannot be written, which neither the server nor a rebuild can fix."""
    full = next((reason for reason in _FULL if any(reason in line for line in _local_lines(text))), None)
    return unusable(full) if full else None


def local_failure(git_dir: Path, text: str, seconds: float, confinement: Confinement) -> SourceUnavailable | None:
    """Return the error where the disk or the mirror is why git failed, None where the server is."""
    failure = disk_failure(text)
    if failure is None and (_is_damaged(text) or not _is_intact(git_dir, seconds, confinement)):
        return Damaged()
    return failure


def _local_lines(text: str) -> list[str]:
    """Return the lines that git wrote itself; what the server prints says nothing of the mirror."""
    return [line for line in text.splitlines() if not line.startswith("remote:")]


def _is_damaged(text: str) -> bool:
    return any(word in line for line in _local_lines(text) for word in _BROKEN)


def _is_intact(git_dir: Path, seconds: float, confinement: Confinement) -> bool:
    """Return whether git can use a mirror: its configuration, its refs, and the commits and folders that they reach."""
    arguments = ("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    try:
        run(git_dir, *arguments, env=environment(()), timeout=seconds, confinement=confinement)
    except GitFailed as error:
        return bool(error.printed) and all(_WITHOUT_FILES.match(line) for line in error.printed.splitlines())
    return True


_MEMBERS = f"username and password (a token), or ssh-privatekey and known_hosts, in {SECRET}"


class _Message(NamedTuple):
    """An error: the text in git's output that identifies it, its kind, what happened, and the fix."""

    pattern: str
    kind: type[SourceUnavailable | InvalidInput]
    what: str
    fix: str


# The first match decides: ssh prints a changed host key before the failure that follows from it, and a key that it
# cannot load before the server's denial.
_MESSAGES = (
    _Message(
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        SourceUntrusted,
        "the SSH host key of {host} has changed",
        f"if the server has a new key, set known_hosts in {SECRET} to the output of ssh-keyscan {{keyscan}}",
    ),
    _Message(
        "Host key verification failed",
        SourceUntrusted,
        "the SSH host key of {host} is unknown",
        f"set known_hosts in {SECRET} to the output of ssh-keyscan {{keyscan}}",
    ),
    _Message(
        r'Load key "[^"]*": incorrect passphrase',
        SourceDenied,
        "the SSH key has a passphrase",
        f"set ssh-privatekey in {SECRET} to a key without one: ssh-keygen -p -N '' -f FILE",
    ),
    _Message(
        r'Load key "[^"]*": |is not a (?:private )?key',
        SourceDenied,
        "the SSH key is not a private key that ssh can read",
        f"set ssh-privatekey in {SECRET} to the complete private key, with its first and last line",
    ),
    _Message(
        r"could not read (?:Username|Password)|Authentication failed|Permission denied|returned error: 401",
        SourceDenied,
        "the Git server rejected the credentials, or requires some",
        f"set {_MEMBERS}",
    ),
    _Message(
        "returned error: 403",
        SourceDenied,
        "the Git server does not allow these credentials to read the repository (403)",
        f"grant them read access, or set {_MEMBERS}",
    ),
    _Message(
        r"repository '[^']*' not found|returned error: (?:404|410)|[Rr]epository not found|does not appear to be a git",
        SourceDenied,
        "the Git server has no such repository, or does not show it to these credentials",
        f"correct spec.source.repoURL, or set {_MEMBERS}",
    ),
    _Message(
        "returned error: 429",
        SourceThrottled,
        "the Git server limits the rate of requests (429)",
        "raise spec.sync.interval, or use webhooks",
    ),
    _Message(
        r"returned error: (5\d\d)",
        SourceUnavailable,
        "the Git server has failed ({0})",
        "the request is retried; ask the operator of the Git server if it persists",
    ),
    _Message(
        r"info/refs not valid",
        SourceUnavailable,
        "the URL answers with a web page instead of Git, such as a sign-in page",
        f"set spec.source.repoURL to the URL for git clone, or set {_MEMBERS}",
    ),
    _Message(
        r"certificate verification failed|certificate problem|certificate subject name|unable to get local issuer",
        SourceUntrusted,
        "the TLS certificate of {host} is not trusted: {line}",
        f"set ca.crt in {SECRET} to the certificate of its authority, or GITSYNC_GIT_CA for all Applications",
    ),
    _Message(
        r"(?:not our ref|unadvertised object) (\w+)",
        InvalidInput,
        "the Git server does not have the commit {0}, or does not serve it by its id",
        "push it, or set spec.source.revision to a branch or tag that contains it",
    ),
    _Message(
        r"shallow",
        SourceUnavailable,
        "the repository on the Git server is a shallow clone, so its history is incomplete",
        "run git fetch --unshallow in it",
    ),
)


def server_error(text: str, shown: str, url: str) -> SourceUnavailable | InvalidInput:
    """Return the error for what git printed; ``shown`` is the URL without user and password."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
    for message in _MESSAGES:
        match = re.search(message.pattern, text)
        if match:
            line = next((line for line in lines if match.group() in line), "").removeprefix("fatal: ")
            values = {**_host(url), "line": line.replace(url, "").replace(shown, "").strip()}
            what, fix = (part.format(*match.groups(), **values) for part in (message.what, message.fix))
            return message.kind(what, location=shown, hint=fix)
    reason = "; ".join(telling[:2] or ["no reason given"])
    return SourceUnavailable(f"the Git server refused or did not answer: {reason}", location=shown)


def _host(url: str) -> dict[str, str]:
    """Return the host of a URL, and the arguments of ssh-keyscan for it."""
    short = None if "://" in url else SCP.fullmatch(url)
    parts = urlsplit(f"ssh://{short['host']}" if short else url)
    host = parts.hostname or ""
    return {"host": host, "keyscan": f"-p {parts.port} {host}" if parts.port else host}
