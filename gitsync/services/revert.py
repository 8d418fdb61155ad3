"""Reverts: find commits by the prefix of their id, undo them by a push, or propose that as a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from gitsync.errors import GitsyncError, InvalidInput, Refused
from gitsync.objects.application import Application, GitSource, NamedSource, SourceGroup, app_of_part
from gitsync.objects.change import Change, Risk
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.record import Commit
from gitsync.objects.signers import Trust
from gitsync.objects.urls import is_artifact, repository_key
from gitsync.plan.commit_effect import commit_effect, effect_risk
from gitsync.ports import Credentials, MergeResult, ProposalSource, RevertResult, Source
from gitsync.ports.hosts import CodeHost, CodeHosts, NewPullRequest
from gitsync.preview.documents import fenced
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.remote_bases import RemoteBases


def open_review(
    hosts: CodeHosts, app: Application, credentials: Credentials, branch: str, title: str, lines: list[str]
) -> str:
    """
    Return the page of the pull request into the tracked branch, a new one where none is open.

    It is empty where the Application names no host. The lines are its text, as code: subjects, names and values in
    them neither mention users nor contain markup. Raise Refused where it cannot be opened: the branch stays.
    """
    tracked = app.source.revision.removeprefix(_HEADS)
    if app.pull_requests is None or branch == tracked:
        return ""
    kind = app.pull_requests.host
    return open_pull(lambda: hosts.host_of(app.source, kind, credentials), branch, tracked, title, lines)


def open_pull(host_of: Callable[[], CodeHost], branch: str, base: str, title: str, lines: Sequence[str]) -> str:
    """Return the page of the pull request of a pushed branch; as ``open_review``, for any repository."""
    try:
        host = host_of()
        # one may be open: of an update of its branch, or from before a crash
        for pull in host.pull_requests():
            if (pull.head_branch, pull.base_branch, pull.is_fork) == (branch, base, False):
                return pull.url
        return host.open_pull_request(NewPullRequest(branch, base, title, f"{fenced(lines, 'text')}\n")).url
    except GitsyncError as error:
        raise Refused(
            f"branch {branch} was pushed, but its pull request could not be opened: {error}", hint="open it at the host"
        ) from error


_CLOSED: Final = "<!-- gitsync closed -->"
"""The first line of the comment on a pull request that is closed: it is written once, also after a crash."""


def close_review(hosts: CodeHosts, app: Application, credentials: Credentials, branch: str, reason: str) -> str:
    """
    Close the pull request of a branch into the tracked branch with a comment, and return its page.

    It is empty where none is open, or the Application names no host. Raise the errors of ``CodeHost``.
    """
    if app.pull_requests is None:
        return ""
    tracked = app.source.revision.removeprefix(_HEADS)
    host = hosts.host_of(app.source, app.pull_requests.host, credentials)
    for pull in host.pull_requests():
        if (pull.head_branch, pull.base_branch, pull.is_fork) == (branch, tracked, False):
            # the comment is first: a pull request that is closed without a reason would stay so
            host.comment(pull.number, f"{_CLOSED}\n{reason}\n", _CLOSED)
            host.close_pull_request(pull.number)
            return pull.url
    return ""


SHORTEST_ID: Final = 7
"""Characters that a prefix has at least."""
# bounds the walk through the history of a large repository
_SEARCHED = 200
"""Commits that are searched, newest first."""


def latest_commits(source: Source, revision: GitSource, credentials: Credentials) -> Sequence[Commit]:
    """Return the latest commits of a revision, newest first, fetched if need be."""
    head = source.resolve(revision, credentials)
    # a snapshot fetches: the commits are in the mirror afterwards
    source.snapshot(revision, credentials, head)
    return source.commits(revision, head, limit=_SEARCHED)


def position_of(commits: Sequence[Commit], prefix: str) -> int | None:
    """Return the position of the newest commit whose id has a prefix of at least ``SHORTEST_ID`` characters."""
    # a short prefix may be that of several commits
    if len(prefix) < SHORTEST_ID:
        return None
    return next((position for position, commit in enumerate(commits) if commit.id.startswith(prefix)), None)


_HEADS = "refs/heads/"


class RevertTarget(NamedTuple):
    """
    What a revert is of: the name of the source, empty for the only one, and the commit to return to, or to revert.

    Without either it is the newest commit.
    """

    source: str
    after: str = ""
    commit: str = ""


def joined_commit_of(app: Application, status: Manifest, text: str) -> tuple[Commit, dict[str, str]]:
    """
    Return the commit of a sync of several sources, by its number or its id, and those that it joins by their names.

    Only the history has them: no server knows a joined commit by its id.
    """
    for entry in at(status, "history", default=[]):
        id = str(entry.get("revision", ""))
        if entry.get("sources") and (
            str(entry.get("id")) == text or (len(text) >= SHORTEST_ID and id.startswith(text))
        ):
            commit = Commit(id, str(entry.get("author", "")), message=str(entry.get("message", "")))
            return commit, _commits_of(entry)
    raise InvalidInput(
        f"{text[:60]!r} names no sync in the history",
        object=f"Application {app.key}",
        hint="several sources are pinned by the number of a sync, or by its commit: see gitsync history",
    )


def _commits_of(entry: Mapping[str, Any]) -> dict[str, str]:
    return {str(part["name"]): str(part["commit"]) for part in entry.get("sources") or ()}


def revert_target(
    app: Application, status: Manifest, source: str = "", *, after: str = "", commit: str = ""
) -> RevertTarget:
    """
    Return which source a revert is of, and what is reverted in it: all after a commit, one commit, or the newest.

    Of several sources, both name a sync by its commit or number, or with ``source`` a commit of that. Where no source
    is named, it is the one that changed since that sync, in it, or in the last one. Raise InvalidInput where several
    did, Refused for an artifact, which has no commits.
    """
    if not isinstance(app.source, SourceGroup):
        app_of_part(app, source)
        return RevertTarget("", after, commit)
    newest = {part["name"]: part["commit"] for part in at(status, "revision", "sources", default=[])}
    try:
        if commit:
            joined, newest = joined_commit_of(app, status, commit)
            old = _commits_before(status, joined.id)
        else:
            old = joined_commit_of(app, status, after)[1] if after else _commits_before(status)
    except InvalidInput:
        # with a name it is a commit of that source
        if not source:
            raise
        old = {}
        newest = {source: commit}
    part = app_of_part(app, source or _changed_source(app, old, newest))
    name = part.source.name if isinstance(part.source, NamedSource) else ""
    if is_artifact(part.source.repo_url):
        raise Refused(
            f"the source {name} is an artifact of a registry, which has no commits to revert",
            hint="pin the Application to an earlier sync: gitsync pin NAME NUMBER",
        )
    return RevertTarget(name, old.get(name, after) if after else "", newest.get(name, "") if commit else "")


def _changed_source(app: Application, old: Mapping[str, str], newest: Mapping[str, str]) -> str:
    """Return the source that changed between two joined commits; those of one repository are one."""
    places = {
        (repository_key(part.repo_url), part.revision): part.name
        for part in reversed(app.source.parts)
        if isinstance(part, NamedSource) and old.get(part.name, newest.get(part.name)) != newest.get(part.name)
    }
    changed = [*reversed(places.values())]
    if len(changed) != 1:
        what = f"{', '.join(changed)} changed" if changed else "no source is known to have changed"
        raise InvalidInput(
            f"{what} since that sync", location="--source", hint="name the source whose commits to revert"
        )
    return changed[0]


def _commits_before(status: Manifest, commit: str = "") -> dict[str, str]:
    """Return what was joined before a commit, or the newest one, empty where the history does not have it."""
    newest = commit or at(status, "revision", "fetched", default="")
    is_later = bool(commit)
    for entry in at(status, "history", default=[]):
        is_later = is_later and entry.get("revision") != newest
        if entry.get("sources") and entry.get("revision") != newest and not is_later:
            return _commits_of(entry)
    return {}


class RevertSource(Source, ProposalSource, Protocol):
    """Prepare reverts, and join the result with what other sources have."""


class RevertService:
    """
    Determine the commits that a rollback reverts, and push their revert.

    ``signers_of`` returns the signers that the policies of an Application require. With ``hosts``, a revert on another
    branch gets a pull request where the Application names its host.
    """

    def __init__(
        self,
        source: Source,
        secrets: ApplicationSecrets,
        signers_of: Callable[[Application], Trust],
        hosts: CodeHosts | None = None,
    ) -> None:
        self._source = source
        self._secrets = secrets
        self._signers_of = signers_of
        self._hosts = hosts

    def commits(self, app: Application, after: str = "") -> Sequence[Commit]:
        """
        Return the commits to revert, newest first: all after a commit, or only the newest one.

        ``after`` is a full id or a prefix of at least 7 characters. Raise InvalidInput when it is not among the latest
        commits of the branch, or is the newest itself.
        """
        latest = self.latest(app)
        if not after:
            return latest[:1]
        position = position_of(latest, after)
        if position is None:
            raise InvalidInput(
                f"{after[:60]!r} is not among the last {len(latest)} commits of {app.source.revision}",
                hint=f"give at least {SHORTEST_ID} characters of a commit id, or the number of a sync in the history",
            )
        if position == 0:
            raise InvalidInput(f"{after[:12]} is the newest commit, so there is nothing to revert")
        return latest[:position]

    def latest(self, app: Application) -> Sequence[Commit]:
        """Return the latest commits of the branch, newest first."""
        return latest_commits(self._source, app.source, self._secrets.credentials(app))

    def one_commit(self, app: Application, prefix: str) -> Sequence[Commit]:
        """Return the commit among the latest ones of the branch, to revert it alone; raise InvalidInput otherwise."""
        latest = self.latest(app)
        position = position_of(latest, prefix)
        if position is None:
            raise InvalidInput(
                f"{prefix[:60]!r} is not among the last {len(latest)} commits of {app.source.revision}",
                hint=f"give at least {SHORTEST_ID} characters of a commit id",
            )
        return latest[position : position + 1]

    def push(
        self, app: Application, commits: Sequence[Commit], *, author: str, branch: str = "", reason: str = ""
    ) -> RevertResult:
        """
        Push one commit that reverts these, to the tracked branch or to another one for review; it has the reason.

        Raise Refused when the controller would reject the unsigned revert commit on the tracked branch.
        """
        # before the push: afterwards the tracked branch would have a commit that the controller rejects
        self._reject_unsigned(app, branch)
        credentials = self._secrets.credentials(app)
        reverted = self._source.revert(
            app.source, credentials, [commit.id for commit in commits], author=author, branch=branch, reason=reason
        )
        if self._hosts is None:
            return reverted
        title = f"Revert {len(commits)} commit{'' if len(commits) == 1 else 's'} of {app.name}"
        lines = [f"{commit.id[:12]} {commit.subject}" for commit in commits]
        return replace(reverted, url=open_review(self._hosts, app, credentials, reverted.branch, title, lines))

    def _reject_unsigned(self, app: Application, branch: str) -> None:
        # the revision of an Application may name the branch in full
        tracked = app.source.revision.removeprefix(_HEADS)
        by_source = any(part.verify.mode == "SignedCommits" for part in app.source.parts)
        by_policy = bool(self._signers_of(app))
        if (by_source or by_policy) and branch.removeprefix(_HEADS) in ("", tracked):
            raise Refused(
                f"the revert commit is not signed, and {app.key} accepts signed commits only: the bad commit would "
                f"stay applied, so nothing was pushed to {tracked}",
                location="spec.source.verify" if by_source else "require.signers of its policy",
                hint="push it to another branch (--branch NAME), and merge it with a signed commit",
            )


def follows_same(source: GitSource, other: GitSource) -> bool:
    """Return whether two sources follow the same revision of the same repository."""
    return (source.repo_url, source.revision) == (other.repo_url, other.revision)


@dataclass(frozen=True, slots=True)
class RevertEffect:
    """What a revert changes in one Application; ``problem`` is why that is not known, empty otherwise."""

    application: str
    steps: tuple[Change, ...] = ()
    problem: str = ""

    @property
    def risk(self) -> Risk:
        """The class of the riskiest step."""
        return effect_risk(self.steps)


@dataclass(frozen=True, slots=True)
class AffectedApplication:
    """An Application that follows the reverted branch, and the commit that was applied to it last, empty for none."""

    app: Application
    applied: str = ""


class RevertPreview:
    """Render what Applications run now and a branch as it would be after a revert, in the isolated render processes."""

    def __init__(
        self, source: RevertSource, renderer: RemoteBases, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._credentials_of = credentials_of

    def effects(
        self, app: Application, commits: Sequence[Commit], followers: Iterable[AffectedApplication]
    ) -> tuple[RevertEffect, ...]:
        """
        Return the effect of a revert of these commits, newest first, on the Applications that follow the branch.

        It is what a revert changes from the commit that was applied last: a newer one that waits changes nothing yet.
        Raise Refused when the commits cannot be reverted by themselves.
        """
        head, reverted = self._source.prepare_revert(
            app.source, self._credentials_of(app), [commit.id for commit in commits]
        )
        return tuple(self._effect(app.source, follower, head, reverted) for follower in followers)

    def newest_change(self, app: Application, commits: Iterable[Commit], whole: Application) -> Commit | None:
        """
        Return the first of these commits, newest first, that changed an object of an Application; None for none.

        They are of ``app``, which of several sources of the ``whole`` has one.
        """
        for commit in commits:
            try:
                (effect,) = self.effects(app, [commit], [AffectedApplication(whole)])
            # a newer commit wrote the same lines: it is the one to revert where they are of this Application
            except Refused:
                continue
            # without the first commit of a folder nothing renders: that is not what a user wants back
            if effect.steps:
                return commit
        return None

    def _effect(self, source: GitSource, follower: AffectedApplication, head: str, reverted: str) -> RevertEffect:
        app = follower.app
        try:
            if isinstance(app.source, SourceGroup):
                head, reverted = self._joined(app, app.source, source, MergeResult(head, head, reverted, frozenset()))
            newest, after = (self._rendered(app, commit) for commit in (head, reverted))
            current = self._rendered(app, follower.applied) if follower.applied not in ("", head) else newest
        # one Application that cannot be rendered does not hide the effect on the others
        except GitsyncError as error:
            return RevertEffect(app.key, problem=str(error))
        # not what other commits change that wait as well
        reverted_refs = {step.ref for step in commit_effect(newest, after)}
        steps = commit_effect(current, after)
        return RevertEffect(app.key, tuple(step for step in steps if step.ref in reverted_refs))

    def _joined(self, app: Application, group: SourceGroup, source: GitSource, revert: MergeResult) -> tuple[str, str]:
        """Return the commits before and after a revert in a source, joined with what the others have now."""
        names = [part.name for part in group.members if follows_same(part, source)]
        credentials = self._credentials_of(app)
        joined, _ = self._source.merge_among(group, credentials, names, revert, max_age=app.sync.interval)
        return joined.base, joined.commit

    def _rendered(self, app: Application, commit: str) -> tuple[Manifest, ...]:
        # credentials of each follower: its repository is the same, its Secret need not be
        snapshot = self._source.snapshot(app.source, self._credentials_of(app), commit)
        return self._renderer.render(app, snapshot).manifests
