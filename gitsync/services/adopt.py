"""Propose values of the cluster to Git: a branch, and a pull request where the host of the repository is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gitsync.edit.adopt import Adoption
from gitsync.objects.application import Application
from gitsync.objects.manifest import content_hash
from gitsync.objects.record import Commit
from gitsync.ports import Credentials, EditSource, FileEdit
from gitsync.ports.hosts import CodeHosts
from gitsync.services.review_branches import open_review


@dataclass(frozen=True, slots=True)
class ProposedAdoption:
    """The commit and its patch; the branch that it was pushed to and its pull request, empty where there is none."""

    commit: Commit
    patch: str
    branch: str = ""
    url: str = ""


class AdoptService:
    """Commit edits on top of a commit of the tracked branch, never on that branch itself."""

    def __init__(
        self, source: EditSource, hosts: CodeHosts, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._hosts = hosts
        self._credentials_of = credentials_of

    def propose(
        self, app: Application, head: str, adoption: Adoption, *, author: str, reason: str = "", branch: str = ""
    ) -> ProposedAdoption:
        """
        Commit the edits; push them to a branch where one is named, or where a pull request can be opened for it.

        Raise Refused where the server rejects the push, and the errors of ``CodeHost``.
        """
        credentials = self._credentials_of(app)
        message = adoption.message(app.key, reason)
        target = branch or (_branch(app, head, adoption) if app.pull_requests else "")
        edit = FileEdit(head, adoption.files, message, author, target)
        commit, patch = self._source.edit(app.source, credentials, edit)
        title, _, text = message.partition("\n")
        lines = text.strip().splitlines()
        url = open_review(self._hosts, app, credentials, target, title, lines) if target else ""
        return ProposedAdoption(commit, patch, target, url)


def _branch(app: Application, head: str, adoption: Adoption) -> str:
    """Return a name that is the same for the same values on the same commit, so that they are proposed once."""
    files = {name: content.decode(errors="replace") for name, content in adoption.files.items()}
    return f"gitsync/adopt-{app.name}-{content_hash([head, files])[:8]}"
