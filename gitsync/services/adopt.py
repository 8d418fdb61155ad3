"""Propose values of the cluster to Git: a branch, and a pull request where the host of the repository is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gitsync.edit.adopt import Adoption, ClusterValue, EditPurpose
from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.manifest import content_hash
from gitsync.objects.record import Commit
from gitsync.ports import Credentials, EditSource, FileEdit, Source
from gitsync.ports.hosts import CodeHosts
from gitsync.ports.previews import ValueAdopter
from gitsync.services.revert import close_review, open_review


@dataclass(frozen=True, slots=True)
class ProposedAdoption:
    """The commit and its patch; the branch that it was pushed to and its pull request, empty where there is none."""

    commit: Commit
    patch: str
    branch: str = ""
    url: str = ""


class AdoptService:
    """Commit edits on top of a commit of the tracked branch; on that branch itself only where that is asked for."""

    def __init__(
        self, source: EditSource, hosts: CodeHosts, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._hosts = hosts
        self._credentials_of = credentials_of

    def propose(
        self,
        app: Application,
        head: str,
        adoption: Adoption,
        *,
        author: str,
        reason: str = "",
        branch: str = "",
        is_direct: bool = False,
    ) -> ProposedAdoption:
        """
        Commit the edits; push them to a branch where one is named, or where a pull request can be opened for it.

        With ``is_direct`` they become the head of the tracked branch, unless that moved since ``head``: WrongState.

        Called again after a crash, it continues: what is pushed or opened already is used.

        Raise Refused where the server rejects the push, and the errors of ``CodeHost``.
        """
        credentials = self._credentials_of(app)
        message = adoption.message(app.key, reason)
        target = branch or (branch_of(app, head, adoption) if app.pull_requests else "")
        if is_direct:
            target = app.source.revision.removeprefix("refs/heads/")
        edit = FileEdit(head, adoption.files, message, author, target, adoption.purpose.has_one_branch, is_direct)
        commit, patch = self._source.edit(app.source, credentials, edit)
        title, _, text = message.partition("\n")
        lines = text.strip().splitlines()
        url = open_review(self._hosts, app, credentials, target, title, lines) if target else ""
        return ProposedAdoption(commit, patch, target, url)

    def leftover(self, app: Application, purpose: EditPurpose) -> str:
        """Return the head of the one branch of a purpose, empty where it has none, or a user has committed to it."""
        trailer = f"{purpose.trailer}: {app.key}"
        return self._source.edited_branch(app.source, self._credentials_of(app), purpose.branch(app.name), trailer)

    def withdraw(self, app: Application, purpose: EditPurpose, head: str, reason: str) -> str:
        """
        Close the pull request of the one branch of a purpose, delete the branch at ``head``, and return the page.

        Called again after a crash, it continues: a pull request that is closed is not commented on again.

        Raise Refused where the branch moved or the server keeps it, and the errors of ``CodeHost``.
        """
        credentials = self._credentials_of(app)
        branch = purpose.branch(app.name)
        url = close_review(self._hosts, app, credentials, branch, reason)
        self._source.delete_branch(app.source, credentials, branch, head)
        return url


def branch_of(app: Application, head: str, adoption: Adoption) -> str:
    """Return a name that is the same for the same values on the same commit, so that they are proposed once."""
    if adoption.purpose.has_one_branch:
        return adoption.purpose.branch(app.name)
    files = {name: content.decode(errors="replace") for name, content in adoption.files.items()}
    return f"gitsync/{adoption.purpose.word}-{app.name}-{content_hash([head, files])[:8]}"


class KeepService:
    """Keep values of the cluster for a user of the dashboard: the edits are found in a render process."""

    def __init__(
        self,
        source: Source,
        adopter: ValueAdopter,
        proposals: AdoptService,
        credentials_of: Callable[[Application], Credentials],
    ) -> None:
        self._source = source
        self._adopter = adopter
        self._proposals = proposals
        self._credentials_of = credentials_of

    def keep(
        self, app: Application, values: Sequence[ClusterValue], *, author: str, reason: str = ""
    ) -> ProposedAdoption:
        """Push the edits to a branch of their own; raise InvalidInput, with the reason, where no value can be kept."""
        credentials = self._credentials_of(app)
        head = self._source.resolve(app.source, credentials)
        snapshot = self._source.snapshot(app.source, credentials, head)
        path = "/".join(part for part in app.source.path.split("/") if part not in ("", "."))
        adoption = self._adopter.adopt(snapshot, path, values, app.destination.namespace)
        if not adoption.values:
            reasons = "; ".join(dict.fromkeys(problem for _, problem in adoption.refused))
            raise InvalidInput(f"nothing can be kept: {reasons}" if reasons else "nothing was changed in the cluster")
        branch = branch_of(app, head, adoption)
        return self._proposals.propose(app, head, adoption, author=author, reason=reason, branch=branch)
