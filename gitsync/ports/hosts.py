"""Hosts of Git repositories: pull requests, statuses of commits, comments, permissions of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from gitsync.objects.application import GitSource
from gitsync.ports.source import Credentials


class PullRequestState(StrEnum):
    """Whether a pull request waits, and how it ended."""

    OPEN = "Open"
    MERGED = "Merged"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """
    A pull request as its host describes it; title, author and branch names are texts of users.

    ``head`` is the commit that is proposed, ``merge_commit`` the one that has it in the target, empty until then.
    ``is_fork``: the head is in another repository; ``ref`` names it in this one all the same.
    """

    number: int
    title: str
    author: str
    state: PullRequestState
    head: str
    head_branch: str
    base_branch: str
    url: str
    updated: datetime
    merge_commit: str = ""
    is_fork: bool = False
    is_draft: bool = False
    ref: str = ""


class CommitState(StrEnum):
    """The state of a check of a commit, in the words that the hosts share."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """One check of a commit: ``context`` is its name, ``description`` one line, ``url`` a page with more."""

    context: str
    state: CommitState
    description: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class NewPullRequest:
    """A pull request to open, from one branch of the repository to another one."""

    head_branch: str
    base_branch: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class HostReview:
    """The last word of a user on a pull request: an approval, or none any more; ``commit`` is the head it is about."""

    login: str
    commit: str
    approves: bool


class Permission(StrEnum):
    """What a user may do with a repository."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class CodeHost(Protocol):
    """
    One repository at its host, by the credentials of one Secret.

    Every method raises SourceUnavailable where the host does not answer, SourceThrottled with the delay that it asks
    for, SourceDenied where it rejects the credentials, and InvalidInput where it rejects the request.
    """

    def pull_requests(self, since: datetime | None = None) -> Sequence[PullRequest]:
        """Return the open pull requests; with ``since``, all that were updated at or after that time, of any state."""
        ...

    def pull_request(self, number: int) -> PullRequest:
        """Return one pull request."""
        ...

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set the status of a commit; a later one of the same context replaces it."""
        ...

    def comment(self, number: int, text: str, marker: str) -> None:
        """Create our one comment on a pull request, or update it; ``marker`` is the first line of its text."""
        ...

    def open_pull_request(self, request: NewPullRequest) -> PullRequest:
        """Open a pull request."""
        ...

    def close_pull_request(self, number: int) -> None:
        """Close a pull request without a merge; one that is closed already stays so."""
        ...

    def reviews(self, number: int) -> Sequence[HostReview]:
        """Return the newest review of each user; nothing where the host does not say which commit is meant."""
        ...

    def permission(self, user: str) -> Permission:
        """Return what a user may do with the repository."""
        ...


class CodeHosts(Protocol):
    """Reach the hosts of repositories."""

    def host_of(self, source: GitSource, kind: str, credentials: Credentials) -> CodeHost:
        """
        Return the repository of a source at its host; ``kind`` is the program that the host runs.

        Nothing is requested yet. Raise InvalidInput for a URL that names no repository of a host.
        """
        ...
