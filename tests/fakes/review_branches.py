"""A host that opens pull requests, and a source that takes pushes: fakes for edits and reverts that users review."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

from gitsync.objects.application import Application, GitSource, parse_application
from gitsync.objects.record import Commit
from gitsync.objects.tree import ReplacedFolder
from gitsync.ports import Credentials, FileEdit, RevertResult, Snapshot
from gitsync.ports.hosts import NewPullRequest


@dataclass
class OpenedRequests:
    """A host that opens what it is given."""

    opened: list[NewPullRequest] = field(default_factory=list)
    failure: Exception | None = None
    closed: list[int] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)

    def host_of(self, source: GitSource, kind: str, credentials: Credentials) -> Any:
        return self

    def pull_requests(self) -> list[Any]:
        return [
            SimpleNamespace(**asdict(request), number=number, is_fork=False, url=self.url)
            for number, request in enumerate(self.opened, 1)
            if number not in self.closed
        ]

    def comment(self, number: int, text: str, marker: str) -> None:
        assert text.startswith(marker)
        self.comments[number] = text.removeprefix(marker).strip()

    def close_pull_request(self, number: int) -> None:
        self.closed.append(number)

    def open_pull_request(self, request: NewPullRequest) -> Any:
        if self.failure is not None:
            raise self.failure
        self.opened.append(request)
        return self

    @property
    def url(self) -> str:
        return f"https://git.example.com/pulls/{len(self.opened)}"


@dataclass
class Pushes:
    """A source that takes every push."""

    edits: list[FileEdit] = field(default_factory=list)

    def edit(self, source: GitSource, credentials: Credentials, edit: FileEdit) -> tuple[Commit, str]:
        self.edits.append(edit)
        return Commit("c" * 40), "the patch"

    def resolve(self, source: GitSource, credentials: Credentials) -> str:
        return "a" * 40

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str) -> Snapshot:
        return Snapshot(Commit(commit), ReplacedFolder(None, "", None), "")  # type: ignore[arg-type]  # nothing reads it

    def revert(
        self,
        source: GitSource,
        credentials: Credentials,
        commits: Any,
        *,
        author: str,
        branch: str = "",
        reason: str = "",
    ) -> RevertResult:
        return RevertResult(Commit("c" * 40), branch or "main")


def application(**spec: Any) -> Application:
    source = {"repoURL": "https://git.example.com/team/shop", "revision": "refs/heads/main"}
    return parse_application({"metadata": {"name": "shop", "namespace": "gitsync"}, "spec": {"source": source, **spec}})


HOSTED = application(pullRequests={"host": "Gitea"})
