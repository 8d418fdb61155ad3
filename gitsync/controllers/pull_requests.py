"""The controller of pull requests: preview each open one, report to the Git host, follow what was merged."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from gitsync.controllers.commit_statuses import deployed_status, preview_status
from gitsync.errors import GitsyncError, InvalidInput, SourceThrottled, TransientError
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.patterns import matches
from gitsync.objects.record import Commit
from gitsync.objects.remote import without_user
from gitsync.objects.urls import repository_key
from gitsync.ports import ApplicationView, Clock, Credentials, ProposalSource, StateReader
from gitsync.ports.hosts import CodeHost, CodeHosts, CommitStatus, PullRequest, PullRequestState
from gitsync.ports.previews import Previewer, PreviewRequest, Proposal, ProposalView
from gitsync.preview.markdown import MARKER, problem_markdown, to_markdown
from gitsync.runtime.controller import Controller
from gitsync.runtime.membership import Shard
from gitsync.runtime.workqueue import WorkQueue

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
_HEADS = "refs/heads/"


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
    manifest_of: Callable[[str], Manifest | None]
    policies: Callable[[], Mapping[str, bytes]]
    web_url: str = ""
    controller_rights: bool = False


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
    reported: dict[tuple[str, str], object] = field(default_factory=dict)
    """The last report to the host, by proposal or context, and by kind of report."""
    host: tuple[object, CodeHost] | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Deployers:
    """The Applications that deploy a repository; ``main`` is the one whose settings and credentials count."""

    main: Application
    views: tuple[ApplicationView, ...]

    @property
    def applications(self) -> tuple[Application, ...]:
        return tuple(view.application for view in self.views if view.application is not None)

    @property
    def branches(self) -> frozenset[str]:
        return frozenset(app.source.revision.removeprefix(_HEADS) for app in self.applications)


class PullRequestController:
    """
    Preview what waits to be merged, level-based: a key is the key of a repository's URL.

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

    def start(self) -> None:
        """Start following the repositories of Applications that ask for it."""
        self._queue.add(_SCAN)
        self._controller.start()

    def stop(self) -> None:
        """Stop after the previews under way have ended."""
        self._controller.stop()

    def proposals(self) -> tuple[ProposalView, ...]:
        """Return the proposals that were previewed, those updated last first."""
        views = [
            view
            for repository in list(self._repositories.values())
            for view in list(repository.views.values())
            if not view.is_merged
        ]
        return tuple(sorted(views, key=lambda view: view.proposal.updated or view.previewed, reverse=True))

    def failures(self) -> Mapping[str, str]:
        """Return why proposals of repositories cannot be read, by URL."""
        repositories = list(self._repositories.items())
        return {url: repository.failure for url, repository in repositories if repository.failure}

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Poll the proposals of the repositories with these URLs now; return how many repositories that are."""
        keys = [key for key, followers in self._followers().items() if is_it(followers.main.source.repo_url)]
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
            self._repositories.pop(key, None)
            self._states.pop(key, None)
            return None
        repository = self._repositories.setdefault(key, _Known())
        self._states[key] = _state_of(ours)
        try:
            return self._update(key, ours, repository)
        except GitsyncError as error:
            repository.failure = str(error)
            raise

    def _followers(self) -> dict[str, _Deployers]:
        """Return the Applications of each repository of which one asks for previews."""
        groups: defaultdict[str, list[ApplicationView]] = defaultdict(list)
        for view in self._ports.view.applications():
            if view.application is not None:
                groups[repository_key(view.application.source.repo_url)].append(view)
        return {
            key: _Deployers(asking[0], tuple(views))
            for key, views in groups.items()
            if (asking := _asking(view.application for view in views))
        }

    def _scan(self, followers: Mapping[str, _Deployers]) -> None:
        for key, group in followers.items():
            if self._states.get(key) != _state_of(group):
                self._queue.add(key)
        for key in self._repositories.keys() - followers.keys():
            self._queue.add(key)

    def _update(self, key: str, followers: _Deployers, repository: _Known) -> float:
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
        return 0.0 if key in self._notified else interval

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
            try:
                repository.views[proposal.name] = self._previewed(followers, proposal, base)
            except TransientError as error:  # the others are previewed; this one is tried again
                failure = error
        return failure

    def _previewed(self, followers: _Deployers, proposal: Proposal, base: str) -> ProposalView:
        ports = self._ports
        source = followers.main.source
        report = None
        problem = ""
        is_merged = False
        try:
            if not base:
                raise InvalidInput(f"branch {proposal.base_branch} does not exist")
            merged, snapshot = ports.source.merge(
                source, ports.credentials_of(followers.main), base, proposal.head, ref=proposal.ref
            )
            request = PreviewRequest(
                merged,
                tuple(dict.fromkeys(without_user(app.source.repo_url) for app in followers.applications)),
                tuple(self._manifests(followers, proposal.base_branch)),
                ports.policies(),
                ports.controller_rights,
            )
            # a branch that was merged and not deleted waits for nothing; a pull request of it is open all the same
            is_merged = not merged.changed and not proposal.url
            report = ports.previewer.preview(snapshot, request)
            if not proposal.title:
                proposal = _described(proposal, ports.source.commits(source, proposal.head, limit=1))
        except TransientError:
            raise
        except GitsyncError as error:  # a conflict, or a change that no preview can read
            problem = str(error)
        keys = tuple(view.key for view in followers.views)
        return ProposalView(proposal, keys, base, report, problem, ports.clock.now(), is_merged)

    def _manifests(self, followers: _Deployers, branch: str) -> Iterable[Manifest]:
        """Yield the Applications that follow a branch, as their specs are now."""
        for app in followers.applications:
            manifest = self._ports.manifest_of(app.key)
            if manifest is not None and app.source.revision.removeprefix(_HEADS) == branch:
                metadata = {name: metadata_of(manifest)[name] for name in ("name", "namespace")}
                yield {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata} | {
                    "spec": manifest.get("spec")
                }

    def _report_all(self, host: CodeHost, followers: _Deployers, repository: _Known) -> TransientError | None:
        """Report to the host what has changed; return a failure that a retry may mend."""
        failure: TransientError | None = None
        for view in list(repository.views.values()):
            number = view.proposal.name.removeprefix("#")
            if number == view.proposal.name:  # a branch
                continue
            try:
                self._report(host, followers.main, repository, int(number), view)
            except SourceThrottled:  # the others would be throttled too
                raise
            except TransientError as error:  # Gitea answers 500 for a commit that is gone
                failure = error
        self._report_deployed(host, followers, repository)
        contexts = {f"gitsync/{name}" for app in followers.applications for name in (app.name, app.key)}
        kept = {*repository.views, *contexts}
        repository.reported = {key: value for key, value in repository.reported.items() if key[0] in kept}
        return failure

    def _report_deployed(self, host: CodeHost, followers: _Deployers, repository: _Known) -> None:
        """Set the statuses of the commits that Applications apply."""
        names = [app.name for app in followers.applications]
        for view in followers.views:
            app = view.application
            if app is None or app.pull_requests is None:
                continue
            # two of one name, in different namespaces, would overwrite each other
            context = f"gitsync/{app.name if names.count(app.name) == 1 else app.key}"
            deployed = deployed_status(view, context, self._page(f"/apps/{app.key}"))
            if deployed is not None:
                self._set_status(host, repository, context, deployed.commit, deployed.status)

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
        reported = (proposal.head, view.report.model_copy(update={"base": ""}) if view.report else view.problem)
        if repository.reported.get(key) != reported:
            text = to_markdown(view.report) if view.report else problem_markdown(view.problem, view.base, proposal.head)
            host.comment(number, f"{text}\n[Review it in gitsync]({page})\n" if page else text, MARKER)
            repository.reported[key] = reported

    def _set_status(self, host: CodeHost, repository: _Known, name: str, commit: str, status: CommitStatus) -> None:
        key = (name, "status")
        if repository.reported.get(key) == (commit, status):
            return
        try:
            host.set_status(commit, status)
        except InvalidInput as error:  # such as a commit that is gone after a forced push: no later attempt differs
            _log.warning("status %s of %s was rejected: %s", status.context, commit[:12], error)
        repository.reported[key] = (commit, status)

    def _page(self, path: str) -> str:
        return f"{self._ports.web_url.rstrip('/')}{path}" if self._ports.web_url else ""


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
            if is_proposed and any(matches(name, pattern) for pattern in app.proposals):
                yield Proposal(without_user(app.source.repo_url), name, "", "", target, name, head)
                break
