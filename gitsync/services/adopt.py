"""Propose values of the cluster to Git: a branch, and a pull request where the host of the repository is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gitsync.edit.adopt import Adoption, ClusterValue, EditPurpose
from gitsync.errors import InvalidInput
from gitsync.objects.application import Application, app_of_part, apps_of_parts
from gitsync.objects.manifest import content_hash
from gitsync.objects.record import Commit
from gitsync.objects.urls import is_artifact
from gitsync.ports import Credentials, EditSource, FileEdit, Snapshot, Source
from gitsync.ports.hosts import CodeHosts
from gitsync.ports.previews import ValueAdopter
from gitsync.render.build import Build
from gitsync.services.revert import close_review, open_review


class ApplicationRenderer(Protocol):
    """Render Applications with what they read of other repositories."""

    def render(self, app: Application, snapshot: Snapshot) -> Build:
        """Return what the folder of an Application renders to."""
        ...

    def files(self, app: Application, snapshot: Snapshot, build: Build) -> Snapshot:
        """Return a snapshot with the files of other repositories that a build used."""
        ...

    def with_inputs(self, app: Application) -> Application:
        """Return an Application with what its charts get of the cluster now."""
        ...


@dataclass(frozen=True, slots=True)
class SourceEdits:
    """
    Edits of the files of one repository, on top of a commit of it.

    Of several sources, ``app`` is the Application as if the source that is edited were the only one.
    """

    app: Application
    head: str
    adoption: Adoption


def find_edits(
    adopter: ValueAdopter,
    renderer: ApplicationRenderer,
    app: Application,
    snapshot: Snapshot,
    build: Build,
    values: Sequence[ClusterValue],
) -> SourceEdits:
    """Return the edits by which an Application renders to some values, in the source whose files set them."""
    files = renderer.files(app, snapshot, build)
    adoption = adopter.adopt(files, renderer.with_inputs(app), values)
    if not snapshot.parts or not adoption.files:
        return SourceEdits(app, snapshot.commit.id, adoption)
    # all are in one repository, and named by one source
    name = next(iter(adoption.files)).partition("/")[0]
    commit = next(part.commit for part in snapshot.parts if part.source.name == name)
    own = replace(
        adoption,
        files={file.removeprefix(f"{name}/"): content for file, content in adoption.files.items()},
        values=tuple(replace(value, where=value.where.removeprefix(f"{name}/")) for value in adoption.values),
    )
    return SourceEdits(app_of_part(app, name), commit, own)


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
        return next((head for _, head in self._leftovers(app, purpose)), "")

    def _leftovers(self, app: Application, purpose: EditPurpose) -> Iterator[tuple[Application, str]]:
        """Yield the sources, each as the only one, that have the branch of a purpose, with its head."""
        trailer = f"{purpose.trailer}: {app.key}"
        for part in apps_of_parts(app):
            if not is_artifact(part.source.repo_url):
                credentials = self._credentials_of(part)
                head = self._source.edited_branch(part.source, credentials, purpose.branch(app.name), trailer)
                if head:
                    yield part, head

    def withdraw(self, app: Application, purpose: EditPurpose, head: str, reason: str) -> str:
        """
        Close the pull request of the one branch of a purpose, delete the branch at ``head``, and return the page.

        Called again after a crash, it continues: a pull request that is closed is not commented on again.

        Raise Refused where the branch moved or the server keeps it, and the errors of ``CodeHost``.
        """
        branch = purpose.branch(app.name)
        part = next((part for part, branch_head in self._leftovers(app, purpose) if branch_head == head), app)
        credentials = self._credentials_of(part)
        url = close_review(self._hosts, part, credentials, branch, reason)
        self._source.delete_branch(part.source, credentials, branch, head)
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
        renderer: ApplicationRenderer,
        adopter: ValueAdopter,
        proposals: AdoptService,
        credentials_of: Callable[[Application], Credentials],
    ) -> None:
        self._source = source
        self._renderer = renderer
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
        build = self._renderer.render(app, snapshot)
        edits = find_edits(self._adopter, self._renderer, app, snapshot, build, values)
        if not edits.adoption.values:
            reasons = "; ".join(dict.fromkeys(problem for _, problem in edits.adoption.refused))
            raise InvalidInput(f"nothing can be kept: {reasons}" if reasons else "nothing was changed in the cluster")
        branch = branch_of(edits.app, edits.head, edits.adoption)
        return self._proposals.propose(
            edits.app, edits.head, edits.adoption, author=author, reason=reason, branch=branch
        )
