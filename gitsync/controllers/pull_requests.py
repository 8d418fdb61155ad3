"""The controller of pull requests: preview each open one, report to the Git host, follow what was merged."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Final

from gitsync import __version__
from gitsync.controllers.commit_statuses import deployed_status, own_commit, preview_status
from gitsync.errors import (
    GitsyncError,
    InvalidInput,
    RecordUnavailable,
    Refused,
    SourceThrottled,
    TerminalError,
    TransientError,
    WrongState,
)
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, ChartInputs, GitSource, NamedSource, SourceGroup, apps_of_parts
from gitsync.objects.change import HoldReason
from gitsync.objects.keys import GIT_CHANGED, GIT_PUSHED
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, metadata_of
from gitsync.objects.patterns import matches
from gitsync.objects.record import Commit
from gitsync.objects.remote import without_user
from gitsync.objects.urls import is_artifact, repository_key
from gitsync.ports import (
    ApplicationView,
    Clock,
    Credentials,
    MergeResult,
    ProposalSource,
    RemoteBase,
    Snapshot,
    StateReader,
)
from gitsync.ports.hosts import CodeHost, CodeHosts, CommitStatus, PullRequest, PullRequestState
from gitsync.ports.previews import (
    FetchRemote,
    JoinedChange,
    KeptProposal,
    Previewer,
    PreviewRequest,
    Proposal,
    ProposalStore,
    ProposalView,
)
from gitsync.preview.documents import MARKER, problem_markdown, to_markdown
from gitsync.preview.report import ReportedRehearsal, with_rehearsal
from gitsync.runtime.controller import Controller
from gitsync.runtime.membership import Shard
from gitsync.runtime.workqueue import WorkQueue
from gitsync.services.reviews import Approval, ReviewedPull, approvals_at_host, has_host_reviewers, is_held

_log = logging.getLogger(__name__)

_SCAN: Final = ""
"""The key that is not of a repository: find the repositories, and those whose Applications have another state."""
_SCAN_PERIOD = 2.0
POLL_PERIOD = 60.0
"""Seconds between two lists of a repository's pull requests: one request in quiet, whatever their number."""
_RELIST_PERIOD = 3600.0
"""Seconds after which all open pull requests are listed again, should one update have been missed."""
_DEBOUNCE = 0.2
"""Seconds after an event in which further ones are awaited: a push to a pull request sends two."""
_WORKERS = 2
_PREVIEWS_A_PASS: Final = 10
"""Previews after which other repositories get a worker: anyone may open pull requests from forks, and any number."""
_MERGES: Final = 500
"""Previews that are kept to find the pull request of a commit."""
_QUEUE: Final = "gh-readonly-queue/"
"""The branches in which GitHub's merge queue tests what it will merge: ``gh-readonly-queue/TARGET/pr-NUMBER-SHA``."""
_HEADS = "refs/heads/"
_REPOSITORY: Final = ""
"""The name of what is kept about a repository itself: no proposal has it."""


@dataclass(frozen=True, slots=True)
class HostApprovals:
    """
    How reviews at a Git host become approvals: the policy of an Application, and what approves a plan by its digest.

    ``approve`` raises WrongState or Refused where the plan waits no longer, or the user may not approve it.
    """

    policy_of: Callable[[Application], Policy]
    approve: Callable[[ApplicationView, str, Approval], object]


@dataclass(frozen=True, slots=True)
class PullRequestPorts:
    """What the controller works with; ``policies`` returns the operator's Policy files by name."""

    source: ProposalSource
    hosts: CodeHosts
    previewer: Previewer
    view: StateReader
    clock: Clock
    share: Shard
    credentials_of: Callable[[Application], Credentials]
    store: ProposalStore
    manifest_of: Callable[[str], Manifest | None]
    policies: Callable[[], Mapping[str, bytes]]
    web_url: str = ""
    controller_rights: bool = False
    approvals: HostApprovals | None = None
    chart_inputs_of: Callable[[Application], ChartInputs] = attrgetter("chart_inputs")
    fetch_remote: Callable[[Application, str, str], RemoteBase] | None = None
    """Return what an Application names of another repository; None where previews read no other ones."""


@dataclass(slots=True)
class _Known:
    """What is known of one repository; used by one worker at a time."""

    pulls: dict[int, PullRequest] = field(default_factory=dict)
    since: datetime | None = None
    """The time of the newest update that was listed; None before the first list."""
    listed_at: float = float("-inf")
    relisted_at: float = float("-inf")
    views: dict[str, ProposalView] = field(default_factory=dict)
    """By the names of proposals."""
    reported: dict[tuple[str, str], str] = field(default_factory=dict)
    """A digest of the last report to the host, by proposal or context, and by kind of report."""
    kept: dict[str, KeptProposal] = field(default_factory=dict)
    """What the store has, by name."""
    rules: str = ""
    """A digest of what the previews depend on beside their commits."""
    host: tuple[object, CodeHost] | None = None
    failure: str = ""
    is_partial: bool = False
    """The last pass left previews for the next one."""
    merges: dict[str, ProposalView] = field(default_factory=dict)
    """The newest previews by the id of the files that their merge has: also of pull requests that are merged since."""


@dataclass(frozen=True, slots=True)
class _Deployers:
    """
    Applications that deploy a repository; ``main`` is the one whose settings and credentials count.

    One with several sources is seen as if that of the repository were its only one; ``groups`` has all of them, by
    the key of the Application.
    """

    main: Application
    views: tuple[ApplicationView, ...]
    groups: Mapping[str, Application]

    @property
    def applications(self) -> tuple[Application, ...]:
        return tuple(view.application for view in self.views if view.application is not None)

    def other_commits(self) -> Iterator[list[str]]:
        """Yield the commits that other sources had in the last reconcile, by Application and name of the source."""
        own = repository_key(self.main.source.repo_url)
        for view in self.views:
            if (whole := self.groups.get(view.key)) is None:
                continue
            others = {
                part.name
                for part in whole.source.parts
                if isinstance(part, NamedSource) and repository_key(part.repo_url) != own
            }
            for entry in at(view.status, "revision", "sources") or ():
                if entry["name"] in others:
                    yield [view.key, entry["name"], entry["commit"]]

    @property
    def branches(self) -> frozenset[str]:
        return frozenset(app.source.revision.removeprefix(_HEADS) for app in self.applications)


class PullRequestController:
    """
    Preview what waits to be merged, level-based: a key is the key of a repository's URL, with the first
    Application where several groups of them use the repository with different credentials.

    A proposal is previewed once for each pair of commits of its head and its target; one that was pushed to meanwhile
    is listed again before the next preview. Reports to the host are remembered, so that in quiet a repository costs
    one request a minute. Reports that failed are sent with the next pass.
    """

    def __init__(self, ports: PullRequestPorts) -> None:
        self._ports = ports
        self._queue: WorkQueue[str] = WorkQueue(monotonic=ports.clock.monotonic)
        self._controller = Controller("pull-requests", self._queue, self.reconcile, workers=_WORKERS)
        self._repositories: dict[str, _Known] = {}
        self._notified: set[str] = set()
        self._states: dict[str, object] = {}
        """The states of the Applications of a repository when they were reported last."""
        self._forwarded: dict[str, object] = {}
        """The marks of forwarded events, by repository, when they were read last."""

    def start(self) -> None:
        """Start following the repositories of Applications that ask for it."""
        self._queue.add(_SCAN)
        self._controller.start()

    def stop(self) -> None:
        """Stop after the previews under way have ended."""
        self._controller.stop()

    def proposals(self) -> tuple[ProposalView, ...]:
        """Return the proposals that any process has previewed, those updated last first."""
        views = [
            kept.view
            for rows in self._kept_by_all().values()
            for kept in rows.values()
            if kept.view is not None and not kept.view.is_merged
        ]
        return tuple(sorted(views, key=lambda view: view.proposal.updated or view.previewed, reverse=True))

    def failures(self) -> Mapping[str, str]:
        """Return why proposals of repositories cannot be read, by URL."""
        rows = {url: rows.get(_REPOSITORY) for url, rows in self._kept_by_all().items()}
        return {url: kept.failure for url, kept in rows.items() if kept is not None and kept.failure}

    def _kept_by_all(self) -> Mapping[str, Mapping[str, KeptProposal]]:
        """Return what the processes keep of the repositories that are followed; our own alone without a database."""
        try:
            kept = self._ports.store.all()
        except RecordUnavailable:
            kept = {key: dict(repository.kept) for key, repository in list(self._repositories.items())}
        followers = self._followers()
        # rows of a repository that no Application names any more may remain after its process has ended
        return {key: rows for key, rows in kept.items() if key in followers}

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Poll the proposals of the repositories with these URLs now; return how many repositories that are."""
        keys = [key for key, followers in self._followers().items() if is_it(followers.main.source.repo_url)]
        if keys:  # it gets ready while the proposals are listed and merged
            self._ports.previewer.prepare_preview()
        for key in keys:
            self._notified.add(key)
            self._queue.add_after(key, _DEBOUNCE)
        return len(keys)

    def reconcile(self, key: str) -> float | None:
        """Bring previews and reports of one repository up to date; return the seconds until the next pass."""
        followers = self._followers()
        if key == _SCAN:
            self._scan(followers)
            return _SCAN_PERIOD
        ours = followers.get(key)
        if ours is None or not self._ports.share.owns(ours.main.key):
            if self._repositories.pop(key, None) is not None and ours is None:
                self._ports.store.forget(key)
            self._states.pop(key, None)
            return None
        repository = self._repositories.get(key) or self._loaded(key, ours)
        self._repositories[key] = repository
        self._states[key] = _state_of(ours)
        try:
            return self._update(key, ours, repository)
        except GitsyncError as error:
            repository.failure = str(error)
            raise
        finally:
            self._keep(key, repository)

    def _loaded(self, key: str, ours: _Deployers) -> _Known:
        """Return what the process that had the repository before has kept: nothing of it is reported again."""
        kept = dict(self._ports.store.all().get(key, {}))
        rules = self._rules(ours)
        views = {name: row.view for name, row in kept.items() if row.view is not None and row.rules == rules}
        reported = {(name, kind): digest for name, row in kept.items() for kind, digest in row.reported.items()}
        return _Known(views=views, reported=reported, kept=kept, rules=rules)

    def _keep(self, key: str, repository: _Known) -> None:
        """Store what has changed of a repository."""
        rows = {name: KeptProposal(view, rules=repository.rules) for name, view in repository.views.items()}
        for (name, kind), digest in repository.reported.items():
            row = rows.get(name, KeptProposal())
            rows[name] = replace(row, reported={**row.reported, kind: digest})
        if repository.failure:
            rows[_REPOSITORY] = KeptProposal(failure=repository.failure)
        changed: dict[str, KeptProposal | None] = {
            name: row for name, row in rows.items() if repository.kept.get(name) != row
        }
        changed |= dict.fromkeys(repository.kept.keys() - rows.keys())
        if not changed:
            return
        try:
            self._ports.store.keep(key, changed)
        except RecordUnavailable as error:  # with the next pass; until then a restart would report again
            _log.warning("previews of %s were not stored: %s", key, error)
        else:
            repository.kept = rows

    def _chart_inputs(self, applications: Iterable[Application]) -> Mapping[str, ChartInputs]:
        """Return what the charts of Applications get of the cluster; a preview reports what it lacks of the others."""
        inputs: dict[str, ChartInputs] = {}
        for app in applications:
            with suppress(TerminalError):  # its own reconcile reports it
                inputs[app.key] = self._ports.chart_inputs_of(app)
        return inputs

    def _rules(self, followers: _Deployers) -> str:
        """Return a digest of what previews depend on beside their commits."""
        main = followers.main
        policies = {name: content.decode(errors="replace") for name, content in self._ports.policies().items()}
        is_rehearsed = main.pull_requests is not None and main.pull_requests.rehearse
        facts = [__version__, policies, self._ports.controller_rights, is_rehearsed, *sorted(followers.other_commits())]
        return content_hash(facts)[:16]

    def _followers(self) -> dict[str, _Deployers]:
        """Return the Applications of each repository of which one asks for previews."""
        views = self._ports.view.applications()
        if not _asking(view.application for view in views):
            return {}
        repositories: defaultdict[str, list[ApplicationView]] = defaultdict(list)
        wholes: dict[str, Application] = {}
        for view in views:
            if view.application is not None and isinstance(view.application.source, SourceGroup):
                wholes[view.key] = view.application
            for own in _of_repositories(view):
                repositories[repository_key(own.source.repo_url)].append(replace(view, application=own))
        followers: dict[str, _Deployers] = {}
        for key, deployers in repositories.items():
            groups = list(self._groups(deployers, wholes))
            # several never share what is kept: each has a key of its own, whichever comes first
            followers |= {f"{key} {group.main.key}" if groups[1:] else key: group for group in groups}
        return followers

    def _groups(self, views: Iterable[ApplicationView], wholes: Mapping[str, Application]) -> Iterator[_Deployers]:
        """
        Yield the Applications of a repository, those apart that must not use the credentials of others.

        Else a tenant who names the repository of another one would set statuses with their token, and decide by the own
        settings, or by credentials that do not fit, what is reported to them.
        """
        rest = list(views)
        while asking := _asking(view.application for view in rest):
            group: list[ApplicationView] = []
            others: list[ApplicationView] = []
            for view in rest:
                may_use = view.application is not None and self._may_use(asking[0], view.application)
                (group if may_use else others).append(view)
            yield _Deployers(asking[0], tuple(group), wholes)
            rest = others

    def _may_use(self, owner: Application, app: Application) -> bool:
        """Whether an Application may use the credentials of another one: they are in its namespace, or also its own."""
        if app.namespace == owner.namespace:
            return True
        try:
            return self._ports.credentials_of(app) == self._ports.credentials_of(owner)
        except GitsyncError:  # its own Secret is missing, which the Application reports
            return False

    def _scan(self, followers: Mapping[str, _Deployers]) -> None:
        for key, group in followers.items():
            if self._states.get(key) != _state_of(group):
                self._queue.add(key)
            hints = self._hints(group)
            # the first ones that are seen may be years old
            if self._forwarded.get(key, hints) != hints:
                self._notified.add(key)
                self._queue.add(key)
            self._forwarded[key] = hints
        for key in self._repositories.keys() - followers.keys():
            self._queue.add(key)

    def _hints(self, followers: _Deployers) -> object:
        """Return the marks by which another replica has forwarded an event of the repository."""
        manifests = (self._ports.manifest_of(app.key) for app in followers.applications)
        return [
            [annotations_of(manifest).get(name) for name in (GIT_CHANGED, GIT_PUSHED)]
            for manifest in manifests
            if manifest is not None
        ]

    def _update(self, key: str, followers: _Deployers, repository: _Known) -> float:
        rules = self._rules(followers)
        if rules != repository.rules:
            repository.views.clear()
            repository.rules = rules
        now = self._ports.clock.monotonic()
        is_notified = key in self._notified
        self._notified.discard(key)
        main = followers.main
        credentials = self._ports.credentials_of(main)
        host = self._host(main, credentials, repository)
        if host is not None and (is_notified or now - repository.listed_at >= POLL_PERIOD):
            self._list(host, repository, now)
        interval = (
            min(POLL_PERIOD, main.sync.interval)
            if any(app.proposals for app in followers.applications)
            else POLL_PERIOD
        )
        branches = self._ports.source.branches(main.source, credentials, max_age=0.0 if is_notified else interval)
        proposals = [*_of_pulls(repository, followers), *_of_branches(branches, followers)]
        failure = self._preview_all(key, followers, repository, proposals, branches)
        if host is not None:
            failure = self._report_all(host, followers, repository) or failure
        if failure is not None:
            raise failure
        repository.failure = ""
        return 0.0 if key in self._notified or repository.is_partial else interval

    def _host(self, main: Application, credentials: Credentials, repository: _Known) -> CodeHost | None:
        """Return the host, the same one while nothing about it changes: it knows our comments and entity tags."""
        if main.pull_requests is None:
            return None
        identity = (main.source.repo_url, main.pull_requests.host, credentials)
        if repository.host is None or repository.host[0] != identity:
            opened = self._ports.hosts.host_of(main.source, main.pull_requests.host, credentials)
            repository.host = (identity, opened)
        return repository.host[1]

    def _list(self, host: CodeHost, repository: _Known, now: float) -> None:
        if now - repository.relisted_at >= _RELIST_PERIOD:
            listed = host.pull_requests()
            repository.pulls = {pull.number: pull for pull in listed}
            repository.relisted_at = now
        else:
            listed = host.pull_requests(repository.since)
        for pull in listed:
            if pull.state is PullRequestState.OPEN:
                repository.pulls[pull.number] = pull
            else:
                repository.pulls.pop(pull.number, None)
        if listed:
            repository.since = max(pull.updated for pull in listed)
        repository.listed_at = now

    def _preview_all(
        self,
        key: str,
        followers: _Deployers,
        repository: _Known,
        proposals: list[Proposal],
        branches: Mapping[str, str],
    ) -> TransientError | None:
        """Preview the proposals whose commits changed, the newest first; return a failure that a retry may mend."""
        names = {proposal.name for proposal in proposals}
        repository.views = {name: view for name, view in repository.views.items() if name in names}
        repository.is_partial = False
        previewed = 0
        failure: TransientError | None = None
        for proposal in sorted(proposals, key=_time, reverse=True):
            base = branches.get(proposal.base_branch, "")
            known = repository.views.get(proposal.name)
            if known is not None and (known.proposal.head, known.base) == (proposal.head, base):
                # a pull request may have got another title; what a branch is called comes from its commit
                if proposal.title:
                    repository.views[proposal.name] = replace(known, proposal=proposal)
                continue
            # pushed to meanwhile: a preview of an old commit is of no use
            if key in self._notified:
                break
            if previewed == _PREVIEWS_A_PASS:
                repository.is_partial = True
                break
            try:
                repository.views[proposal.name] = self._previewed(followers, proposal, base)
                previewed += 1
            except TransientError as error:  # the others are previewed; this one is tried again
                failure = error
        return failure

    def _previewed(self, followers: _Deployers, proposal: Proposal, base: str) -> ProposalView:
        ports = self._ports
        source = followers.main.source
        report = None
        problem = ""
        is_merged = False
        tree = ""
        try:
            if not base:
                raise InvalidInput(f"branch {proposal.base_branch} does not exist")
            ports.previewer.prepare_preview()
            merged, snapshot = ports.source.merge(
                source, ports.credentials_of(followers.main), base, proposal.head, ref=proposal.ref
            )
            joined = list(self._joined(followers, proposal.base_branch, merged))
            snapshot = replace(snapshot, joined=tuple(files for _, files in joined if files is not None))
            request = PreviewRequest(
                merged,
                tuple(dict.fromkeys(without_user(app.source.repo_url) for app in followers.applications)),
                tuple(manifest for _, manifest in self._manifests(followers, proposal.base_branch, is_joined=False)),
                ports.policies(),
                ports.controller_rights,
                tuple(change for change, _ in joined),
                self._chart_inputs(followers.applications),
                {} if proposal.is_fork else self._fetchers(followers),
            )
            tree = merged.tree
            # a branch that was merged and not deleted waits for nothing; a pull request of it is open all the same
            is_merged = not merged.changed and not proposal.url
            report = ports.previewer.preview(snapshot, request)
            settings = followers.main.pull_requests
            # what cannot be built or is rejected fails anyway
            if settings is not None and settings.rehearse and report.changes and report.is_valid:
                report = with_rehearsal(report, self._rehearsed(snapshot, request))
            if not proposal.title:
                proposal = _described(proposal, ports.source.commits(source, proposal.head, limit=1))
        except TransientError:
            raise
        except GitsyncError as error:  # a conflict, or a change that no preview can read
            # a path that is not valid UTF-8 can be neither stored nor sent
            problem = str(error).encode(errors="backslashreplace").decode()
        keys = tuple(view.key for view in followers.views)
        return ProposalView(proposal, keys, base, report, problem, ports.clock.now(), is_merged, tree)

    def _fetchers(self, followers: _Deployers) -> dict[str, FetchRemote]:
        """
        Return how what each Application names of other repositories is fetched, as its own renders do.

        Not for forks: their authors could read in the comment what the credentials of the Application can read.
        """
        fetch = self._ports.fetch_remote
        wholes = (followers.groups.get(app.key, app) for app in followers.applications)
        return {app.key: partial(fetch, app) for app in wholes} if fetch is not None else {}

    def _rehearsed(self, snapshot: Snapshot, request: PreviewRequest) -> ReportedRehearsal:
        try:
            return self._ports.previewer.rehearse(snapshot, request)
        except TransientError:
            raise
        except GitsyncError as error:  # such as one that takes longer than a render may: the preview counts without it
            return ReportedRehearsal(not_judged=(f"the change: {error}",))

    def _manifests(
        self, followers: _Deployers, branch: str, *, is_joined: bool
    ) -> Iterable[tuple[Application, Manifest]]:
        """Yield the Applications that follow a branch, with one source or several, and their specs as they are now."""
        for app in followers.applications:
            manifest = self._ports.manifest_of(app.key)
            is_wanted = (app.key in followers.groups) is is_joined
            if manifest is not None and is_wanted and app.source.revision.removeprefix(_HEADS) == branch:
                metadata = {name: metadata_of(manifest)[name] for name in ("name", "namespace")}
                head = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata}
                yield app, head | {"spec": manifest.get("spec")}

    def _joined(
        self, followers: _Deployers, branch: str, merge: MergeResult
    ) -> Iterator[tuple[JoinedChange, Snapshot | None]]:
        """Yield what a merge is for Applications with several sources, with the files of all."""
        for app, manifest in self._manifests(followers, branch, is_joined=True):
            whole = followers.groups[app.key]
            group = whole.source
            assert isinstance(group, SourceGroup)
            names = [member.name for member in group.members if _target(member) == _target(app.source)]
            try:
                credentials = self._ports.credentials_of(whole)
                result, files = self._ports.source.merge_among(
                    group, credentials, names, merge, max_age=whole.sync.interval
                )
            except TransientError:
                raise
            except GitsyncError as error:  # the other Applications are previewed all the same
                yield JoinedChange(manifest, problem=str(error)), None
            else:
                yield JoinedChange(manifest, files.git_dir, result), files

    def _report_all(self, host: CodeHost, followers: _Deployers, repository: _Known) -> TransientError | None:
        """Report to the host what has changed; return a failure that a retry may mend."""
        failure: TransientError | None = None
        for view in list(repository.views.values()):
            number = view.proposal.name.removeprefix("#")
            if number == view.proposal.name:  # a branch
                if view.proposal.name.startswith(_QUEUE):
                    self._report_queued(host, followers.main, repository, view)
                continue
            try:
                self._report(host, followers.main, repository, int(number), view)
            except SourceThrottled:  # the others would be throttled too
                raise
            except TransientError as error:  # Gitea answers 500 for a commit that is gone
                failure = error
        self._approve_reviewed(host, followers, repository)
        self._report_deployed(host, followers, repository)
        contexts = {f"gitsync/{name}" for app in followers.applications for name in (app.name, app.key)}
        merged = {view.proposal.name for view in repository.merges.values()}
        kept = {*repository.views, *merged, *contexts}
        repository.reported = {key: value for key, value in repository.reported.items() if key[0] in kept}
        return failure

    def _approve_reviewed(self, host: CodeHost, followers: _Deployers, repository: _Known) -> None:
        """Approve the held plans of merged pull requests by their reviews, where a policy names the reviewers."""
        approvals = self._ports.approvals
        # One that changes nothing is merged already, where the host lists it as open for some time still: the tree of
        # its merge is the same, and what was reviewed is the preview before.
        with_files = {view.tree: view for view in repository.views.values() if view.report and view.report.changes}
        repository.merges = dict(list((repository.merges | with_files).items())[-_MERGES:])
        for view in followers.views:
            app = view.application
            if approvals is None or app is None:
                continue
            note = (self._context(followers, app), "review")
            has_reviewers = has_host_reviewers(approvals.policy_of(app))
            merge = self._reviewable_merge(app, view, repository) if has_reviewers else None
            if merge is None:
                repository.reported.pop(note, None)
                continue
            try:
                self._approve(host, approvals, view, merge, repository)
            except (Refused, WrongState) as error:  # it waits for an approval here, as any other plan
                repository.reported[note] = error.message

    def _reviewable_merge(self, app: Application, view: ApplicationView, repository: _Known) -> ProposalView | None:
        """Return the preview of the pull request whose merge a held plan applies."""
        if view.plan is None or not _waits_for_approval(view):
            return None
        credentials = self._ports.credentials_of(app)
        commit = own_commit(app, view.status, view.plan.revision)
        merge = repository.merges.get(self._ports.source.tree(app.source, credentials, commit)) if commit else None
        return merge if merge is not None and merge.proposal.url else None

    def _approve(
        self, host: CodeHost, approvals: HostApprovals, view: ApplicationView, merge: ProposalView, repository: _Known
    ) -> None:
        app, plan = view.application, view.plan
        if app is None or plan is None:
            return
        pull = self._reviewed(host, app, merge)
        for approval in approvals_at_host(app, plan, pull, approvals.policy_of(app)):
            key = (merge.proposal.name, f"review by {approval.by.name} for {app.key}")
            # each counts once: of a plan that needs two, the other one may come later
            if repository.reported.get(key) != plan.digest:
                approvals.approve(view, plan.digest, approval)
                repository.reported[key] = plan.digest

    def _reviewed(self, host: CodeHost, app: Application, merge: ProposalView) -> ReviewedPull:
        """Return a merged pull request with its reviews; raise Refused where it was not merged as it was previewed."""
        proposal = merge.proposal
        number = int(proposal.name.removeprefix("#"))
        pull = host.pull_request(number)
        if pull.state is not PullRequestState.MERGED or pull.head != proposal.head:
            raise Refused(f"{proposal.name} is not merged with the head that was previewed")
        changes = merge.report.changes if merge.report else ()
        plan = next((change.plans[app.key] for change in changes if app.key in change.plans), "")
        authors = self._ports.source.authors(app.source, merge.base, proposal.head)
        page = proposal.repository
        return ReviewedPull(proposal.name, page, pull.head, pull.author, authors, plan, tuple(host.reviews(number)))

    def _context(self, followers: _Deployers, app: Application) -> str:
        """Return the name of the status of an Application."""
        # by key: one may have two branches of the repository as sources
        names = [name for name, _ in {(other.name, other.namespace) for other in followers.applications}]
        # two of one name, in different namespaces, would overwrite each other
        return f"gitsync/{app.name if names.count(app.name) == 1 else app.key}"

    def _report_deployed(self, host: CodeHost, followers: _Deployers, repository: _Known) -> None:
        """Set the statuses of the commits that Applications apply."""
        for view in followers.views:
            app = view.application
            if app is None or app.pull_requests is None:
                continue
            context = self._context(followers, app)
            note = repository.reported.get((context, "review"), "")
            deployed = deployed_status(view, context, self._page(f"/apps/{app.key}"), note)
            commit = own_commit(app, view.status, deployed.commit) if deployed is not None else ""
            if deployed is not None and commit:
                self._set_status(host, repository, context, commit, deployed.status)

    def _report(self, host: CodeHost, main: Application, repository: _Known, number: int, view: ProposalView) -> None:
        settings = main.pull_requests
        if settings is None:
            return
        proposal = view.proposal
        page = self._page(f"/pulls/{proposal.key}")
        status = preview_status(view, settings.fail_above, page)
        self._set_status(host, repository, proposal.name, proposal.head, status)
        key = (proposal.name, "comment")
        # one that says that nothing changes would be noise, but where an earlier one says otherwise
        is_wanted = view.report is None or view.report.changes or key in repository.reported
        if not (settings.comment and is_wanted):
            return
        # without the base: a push to it that leaves the preview as it is causes no comment
        shown = view.report.model_copy(update={"base": ""}).model_dump(mode="json") if view.report else view.problem
        reported = content_hash([proposal.head, shown])
        if repository.reported.get(key) != reported:
            text = to_markdown(view.report) if view.report else problem_markdown(view.problem, view.base, proposal.head)
            host.comment(number, f"{text}\n[Review it in gitsync]({page})\n" if page else text, MARKER)
            repository.reported[key] = reported

    def _report_queued(self, host: CodeHost, main: Application, repository: _Known, view: ProposalView) -> None:
        """Set the status of a commit of a merge queue, which is merged as it is where all its checks succeed."""
        fail_above = main.pull_requests.fail_above if main.pull_requests else None
        proposal = view.proposal
        status = preview_status(view, fail_above, self._page(f"/pulls/{proposal.key}"))
        self._set_status(host, repository, proposal.name, proposal.head, status)

    def _set_status(self, host: CodeHost, repository: _Known, name: str, commit: str, status: CommitStatus) -> None:
        key = (name, "status")
        reported = content_hash([commit, status.context, status.state.value, status.description, status.url])
        if repository.reported.get(key) == reported:
            return
        try:
            host.set_status(commit, status)
        except InvalidInput as error:  # such as a commit that is gone after a forced push: no later attempt differs
            _log.warning("status %s of %s was rejected: %s", status.context, commit[:12], error)
        repository.reported[key] = reported

    def _page(self, path: str) -> str:
        return f"{self._ports.web_url.rstrip('/')}{path}" if self._ports.web_url else ""


def _target(source: GitSource) -> tuple[str, str]:
    """Return the repository and the branch that a source follows."""
    return repository_key(source.repo_url), source.revision.removeprefix(_HEADS)


def _of_repositories(view: ApplicationView) -> Iterator[Application]:
    """Yield an Application as if each branch of Git that it deploys were its only source."""
    app = view.application
    if app is None or not isinstance(app.source, SourceGroup):
        yield from (app,) if app is not None else ()
        return
    branches = {_target(part.source): part for part in reversed(apps_of_parts(app))}
    for part in branches.values():
        if is_artifact(part.source.repo_url):
            continue
        # others may own a repository that it reads without credentials: they get no statuses
        yield part if part.source.credentials_secret else replace(part, pull_requests=None)


def _asking(applications: Iterable[Application | None]) -> list[Application]:
    """Return the Applications that ask for previews, those with a host first."""
    asking = [app for app in applications if app is not None and (app.pull_requests or app.proposals)]
    return sorted(asking, key=lambda app: (app.pull_requests is None, app.key))


def _state_of(followers: _Deployers) -> object:
    """Return what of Applications is reported, and what decides how: with the same, no pass is needed."""
    return [
        (view.application, deployed_status(view, view.key), view.application and view.application.pull_requests)
        for view in followers.views
    ]


def _waits_for_approval(view: ApplicationView) -> bool:
    return is_held(view) and view.verdict is not None and HoldReason.APPROVAL in view.verdict.holds


def _time(proposal: Proposal) -> datetime:
    return proposal.updated or datetime.min.replace(tzinfo=UTC)


def _of_pulls(repository: _Known, followers: _Deployers) -> Iterable[Proposal]:
    """Yield the open pull requests into branches that are deployed."""
    for pull in repository.pulls.values():
        if pull.base_branch in followers.branches:
            yield Proposal(
                without_user(followers.main.source.repo_url),
                f"#{pull.number}",
                pull.title,
                pull.author,
                pull.base_branch,
                pull.head_branch,
                pull.head,
                pull.url,
                pull.updated,
                pull.is_fork,
                pull.is_draft,
                pull.ref,
            )


def _described(proposal: Proposal, commits: Iterable[Commit]) -> Proposal:
    """Return the proposal of a branch with the subject and author of its newest commit."""
    for commit in commits:
        return replace(proposal, title=commit.subject, author=commit.author, updated=commit.time)
    return proposal


def _of_branches(branches: Mapping[str, str], followers: _Deployers) -> Iterable[Proposal]:
    """Yield the branches that match a pattern of an Application, each once, and that are not merged."""
    merged = {branches[name] for name in followers.branches if name in branches}
    for name, head in branches.items():
        for app in followers.applications:
            target = app.source.revision.removeprefix(_HEADS)
            is_proposed = name != target and head not in merged
            is_queued = app.pull_requests is not None and name.startswith(f"{_QUEUE}{target}/")
            if is_proposed and (is_queued or any(matches(name, pattern) for pattern in app.proposals)):
                yield Proposal(without_user(app.source.repo_url), name, "", "", target, name, head)
                break
