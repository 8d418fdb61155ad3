"""Previews of proposed changes: how they are made, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from gitsync.edit.adopt import Adoption, ClusterValue
from gitsync.objects.application import Application, ChartInputs
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.ports.source import MergeResult, RemoteBase, Snapshot
from gitsync.preview.report import PreviewReport, ReportedRehearsal


@dataclass(frozen=True, slots=True)
class JoinedChange:
    """
    What a merge is for an Application with several sources, one of which is the repository.

    ``merge`` is of commits that join all sources, in ``git_dir``; without it, ``problem`` is why they are not joined.
    """

    application: Manifest
    git_dir: str = ""
    merge: MergeResult | None = None
    problem: str = ""


FetchRemote = Callable[[str, str], RemoteBase]
"""Return what a reference names, with the place that names it; raise Refused, or SourceUnavailable, else."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """
    A merge to preview.

    ``urls`` are those of the repository, ``applications`` the manifests of the Applications that deploy it alone,
    ``joined`` what the merge is for those with further sources, and
    ``policies`` the operator's Policy files by name; with ``controller_rights`` they let Applications without a
    ServiceAccount write.
    """

    merge: MergeResult
    urls: tuple[str, ...]
    applications: tuple[Manifest, ...] = ()
    policies: Mapping[str, bytes] = field(default_factory=dict)
    controller_rights: bool = False
    joined: tuple[JoinedChange, ...] = ()
    chart_inputs: Mapping[str, ChartInputs] = field(default_factory=dict)
    """What the charts of Applications get of the cluster, by their keys; absent where it cannot be read."""
    fetchers: Mapping[str, FetchRemote] = field(default_factory=dict)
    """How what an Application names of other repositories is fetched, by its key, with its rights."""


class Previewer(Protocol):
    """Preview a merge. Called by the controller of pull requests."""

    def prepare_preview(self) -> None:
        """Have what a preview needs ready soon, without waiting for it. Called when one will follow."""
        ...

    def preview(self, snapshot: Snapshot, request: PreviewRequest) -> PreviewReport:
        """Return what a merge does; raise InvalidInput where that takes more than the limits allow."""
        ...

    def rehearse(self, snapshot: Snapshot, request: PreviewRequest) -> ReportedRehearsal:
        """Return what an API server in a sandbox refuses of a merge; raise InvalidInput as ``preview`` does."""
        ...


class ValueAdopter(Protocol):
    """Find the edits that give fields the values of the cluster. Called where a user keeps a change."""

    def adopt(self, snapshot: Snapshot, app: Application, values: Sequence[ClusterValue]) -> Adoption:
        """
        Return edits of the files of an Application, each proved by rendering; raise InvalidInput as ``render`` does.

        Of several sources, the paths begin with the name of the source, and all are in one repository.
        """
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """
    A change that waits to be merged: a pull request, named ``#12``, or a branch, by its name.

    ``repository`` is the URL without a user; ``url`` is the page at the host, empty for a branch.
    """

    repository: str
    name: str
    title: str
    author: str
    base_branch: str
    head_branch: str
    head: str
    url: str = ""
    updated: datetime | None = None
    is_fork: bool = False
    is_draft: bool = False
    ref: str = ""
    """What names the head at its host where no branch of the repository does."""

    @property
    def key(self) -> str:
        """A name that is short and unique, for addresses of pages."""
        return content_hash([self.repository, self.name])[:12]


@dataclass(frozen=True, slots=True)
class ProposalView:
    """
    A proposal and its preview against the commit ``base``; ``problem`` is why the report is absent.

    ``applications`` are the keys of those that deploy the repository. ``is_merged``: the base has all of it already.
    """

    proposal: Proposal
    applications: tuple[str, ...]
    base: str
    report: PreviewReport | None
    problem: str
    previewed: datetime
    is_merged: bool = False
    tree: str = ""
    """The id of the files that the merge has, by which a commit is found to be that merge, however it was made."""


@dataclass(frozen=True, slots=True)
class KeptProposal:
    """
    What is kept of a proposal over a restart: its preview, and digests of what was reported of it, by kind.

    One without a view has the reports on a deployed commit, or ``failure``: why the repository cannot be read.
    ``rules`` is a digest of what the preview depends on beside its commits.
    """

    view: ProposalView | None = None
    reported: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    rules: str = ""


class ProposalStore(Protocol):
    """Keep what is known of proposals. Called by the controller of pull requests; raises RecordUnavailable."""

    def all(self) -> Mapping[str, Mapping[str, KeptProposal]]:
        """Return what is kept, by the key of the repository and by name, of all processes."""
        ...

    def keep(self, repository: str, rows: Mapping[str, KeptProposal | None]) -> None:
        """Write what is kept of a repository, by name; None deletes it."""
        ...

    def forget(self, repository: str) -> None:
        """Delete what is kept of a repository."""
        ...


class Proposals(Protocol):
    """What waits to be merged, from memory. Called by the dashboard for every view, and by webhooks."""

    def proposals(self) -> tuple[ProposalView, ...]:
        """Return the proposals that were previewed, those updated last first."""
        ...

    def failures(self) -> Mapping[str, str]:
        """Return why proposals of repositories cannot be read, by URL."""
        ...

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Poll the proposals of the repositories with these URLs now; return how many there are."""
        ...
