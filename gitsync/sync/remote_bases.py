"""Render commits whose kustomizations name folders in other repositories, or charts of Helm repositories."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from gitsync.errors import InvalidInput, Refused, RemoteNeeded, SourceUnavailable
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, ChartInputs, GitSource, SourceGroup
from gitsync.objects.charts import ChartOptions
from gitsync.objects.remote import RemoteReference, mount_path, parse_remote, without_user
from gitsync.objects.tree import MountedTree, Tree
from gitsync.objects.urls import CHART_SCHEME, matches_url
from gitsync.ports import Credentials, RemoteBase, Renderer, Snapshot, Source
from gitsync.render.build import Build, check_count, joined_build
from gitsync.render.provenance.trace import FieldSelection, Traces

_T = TypeVar("_T")
_MOST = 50
"""References to other repositories in one build."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HINT = "name a tag or a full commit id: https://HOST/REPOSITORY//FOLDER?ref=v1.0"
_HINT_OF_FILE = "name a file as GitHub, GitLab or Gitea serves it raw, at a tag or full commit id"
_TAGS = "refs/tags/"
_FILES = (".yaml", ".yml", ".json")


class RemoteFetcher:
    """
    Fetch folders and files in other repositories, into mirrors like those of any repository.

    All of some policies have to list the URL. ``credentials_for`` returns the credentials for a URL; an answer of the
    server may be ``max_age`` seconds old. A revision is a tag or a commit id, never a branch. With ``only_commits`` it
    has to be a commit id: where commits must be signed, the signature of the one that names it covers its content too.
    """

    def __init__(
        self,
        source: Source,
        credentials_for: Callable[[str], Credentials],
        policies: Sequence[Policy],
        max_age: float = 0.0,
        *,
        only_commits: bool = False,
    ) -> None:
        self._source = source
        self._credentials_for = credentials_for
        self._policies = policies
        self._max_age = max_age
        self._only_commits = only_commits

    def collect(self, work: Callable[[Mapping[str, RemoteBase]], _T]) -> tuple[Mapping[str, RemoteBase], _T]:
        """Run a build; each reference that is not here yet ends it, and starts it again with its files."""
        bases: dict[str, RemoteBase] = {}
        # again from the start: which folders a build needs is known only once it has read the ones before (decision
        # 0032)
        while True:
            try:
                return bases, work(bases)
            except RemoteNeeded as needed:
                # the same reference twice: its files did not satisfy the build, so that it would never end
                if len(bases) >= _MOST or needed.reference in bases:
                    raise InvalidInput(
                        f"the build names more than {_MOST} folders of other repositories",
                        location=needed.location,
                        hint="copy them into the repository",
                    ) from needed
                bases[needed.reference] = self.fetch(needed.reference, needed.location)

    def fetch(self, reference: str, location: str, commit: str = "") -> RemoteBase:
        """Return the folder or file that a reference names, at the commit that its revision names, or at this one."""
        wanted = self.allowed(reference, location)
        try:
            # for the files of a finished build the commit is known, and a moved tag must not change them
            commit = commit or self.commit(wanted)
            read = wanted.path.rpartition("/")[0] if wanted.is_file else wanted.path
            source = GitSource(repo_url=wanted.url, revision=_fixed_revision(wanted), path=read)
            files = self._source.snapshot(source, self._credentials_for(wanted.url), commit)
        except (InvalidInput, SourceUnavailable) as error:  # both may be other without a new commit here
            raise _unavailable(wanted, location, error) from error
        mount = mount_path(wanted.url, commit)
        folder = f"{mount}/{wanted.path}" if wanted.path else mount
        return RemoteBase(reference, mount, folder, commit, files.tree, files.git_dir, files.fetch_file)

    def commit(self, wanted: RemoteReference) -> str:
        """Return the commit that a reference names now; a commit id needs no server."""
        source = GitSource(repo_url=wanted.url, revision=_fixed_revision(wanted))
        return self._source.resolve(source, self._credentials_for(wanted.url), max_age=self._max_age)

    def has_moved(self, reference: str, commit: str) -> bool:
        """Return whether a reference names another commit now; while the server does not answer, it does not."""
        try:
            return self.commit(parsed(reference, "")) != commit
        except (InvalidInput, SourceUnavailable):
            return False

    def allowed(self, reference: str, location: str = "") -> RemoteReference:
        """Return what a reference names; raise Refused unless the policies allow it now, without asking a server."""
        self._check_policies(reference, location)
        wanted = parsed(reference, location)
        if self._only_commits and not _COMMIT.fullmatch(wanted.revision):
            raise Refused(
                f"commits must be signed, and the revision {wanted.revision} of {wanted.shown} is not a commit id",
                location=location,
                hint="commit the folder of the chart" if wanted.is_chart else "name the full commit id: ?ref=ID",
            )
        return wanted

    def _check_policies(self, reference: str, location: str) -> None:
        """Raise Refused unless each policy lists the URL, before anything else about a reference is an error."""
        wanted = parse_remote(reference)
        url = wanted.url if wanted else reference
        # without a policy nothing is allowed, as the default of a Policy lists no URLs
        for policy in self._policies or (Policy(),):
            if not any(matches_url(pattern, url) for pattern in policy.remotes):
                shown = wanted.shown if wanted else without_user(url)
                raise Refused(
                    f"{shown} is remote, and its content is not allowed by policy {policy.name}",
                    location=location,
                    hint="list its URL under spec.allow.remotes of the policy, or copy the files into the repository",
                )


def mounted(tree: Tree, bases: Mapping[str, RemoteBase]) -> Tree:
    """Return a tree that has the files of other repositories too."""
    mounts = {base.mount: base.tree for base in bases.values()}
    return MountedTree(tree, mounts, {reference: base.folder for reference, base in bases.items()}) if bases else tree


def parsed(reference: str, location: str) -> RemoteReference:
    """Return what a reference names; raise InvalidInput without a Git repository or a revision."""
    wanted = parse_remote(reference)
    if wanted is None:
        raise InvalidInput(
            f"{without_user(reference)} is remote, but not a URL of a Git repository", location=location, hint=_HINT
        )
    if wanted.path.endswith(_FILES) and not wanted.revision:
        raise InvalidInput(
            f"{without_user(reference)} is a single file by URL, but not one of a Git repository",
            location=location,
            hint=f"{_HINT_OF_FILE}, or copy the file into the repository",
        )
    if not wanted.revision:
        raise InvalidInput(
            f"{without_user(reference)} names no revision, so its content may change", location=location, hint=_HINT
        )
    return wanted


def _fixed_revision(wanted: RemoteReference) -> str:
    """Return a revision by which a server finds a tag or a commit only: a branch may move at any time."""
    revision = wanted.revision
    if wanted.is_chart:  # a version, and versions are published once
        return revision
    return revision if _COMMIT.fullmatch(revision) or revision.startswith(_TAGS) else f"{_TAGS}{revision}"


def _unavailable(wanted: RemoteReference, location: str, error: InvalidInput | SourceUnavailable) -> SourceUnavailable:
    """Return the error for a folder that cannot be fetched, with its URL and the place that names it."""
    if isinstance(error, InvalidInput) and error.location == "spec.source.revision" and not wanted.is_chart:
        message = f"the revision {wanted.revision!r} is neither a tag nor a full commit id"
        hint = _HINT
    else:
        message = error.message
        hint = error.hint
    retry_after = error.retry_after if isinstance(error, SourceUnavailable) else None
    return SourceUnavailable(f"{wanted.shown}: {message}", location=location, hint=hint, retry_after=retry_after)


class RenderConditions(NamedTuple):
    """What the build of a commit, or its error, depends on besides the commit."""

    chart: ChartOptions
    """What charts get of the Application and of the cluster."""
    max_objects: int
    """How many objects the policies allow."""


class RemoteBases:
    """Render Applications with the folders in other repositories that they name; see ``RemoteFetcher``."""

    def __init__(
        self,
        renderer: Renderer,
        source: Source,
        credentials_of: Callable[[Application], Credentials],
        policies_of: Callable[[Application], Sequence[Policy]],
        chart_inputs_of: Callable[[Application], ChartInputs] = lambda app: app.chart_inputs,
    ) -> None:
        self._renderer = renderer
        self._source = source
        self._credentials_of = credentials_of
        self._policies_of = policies_of
        self._chart_inputs_of = chart_inputs_of
        self._urls: dict[str, frozenset[str]] = {}

    @property
    def repositories(self) -> frozenset[str]:
        """The URLs of the other repositories that Applications have used."""
        # a copy: other workers add Applications while it is read
        return frozenset().union(*list(self._urls.values()))

    def conditions(self, app: Application) -> RenderConditions:
        """Return what the build of a commit, or its error, depends on besides the commit."""
        return RenderConditions(self.with_inputs(app).chart, self._max_objects(app))

    def _max_objects(self, app: Application) -> int:
        return min((policy.max_objects for policy in self._policies_of(app)), default=Policy().max_objects)

    def with_inputs(self, app: Application) -> Application:
        """Return an Application with what its charts get of the cluster now."""
        return replace(app, chart_inputs=self._chart_inputs_of(app))

    def render(self, app: Application, snapshot: Snapshot) -> Build:
        """Return what an Application's path renders to, with the commits of other repositories that it used."""
        app = self.with_inputs(app)
        limit = self._max_objects(app)
        snapshot = replace(snapshot, tenant=app.namespace, max_objects=limit)
        bases, build = self._fetcher(app).collect(lambda remotes: self._render(app, with_remotes(snapshot, remotes)))
        # those of several sources together; a render process has checked each
        check_count(build.manifests, limit)
        urls = frozenset(parsed(reference, "").url for reference in bases)
        if urls:
            self._urls[app.key] = urls
        else:
            self.forget(app.key)
        return build._replace(remotes=tuple((reference, base.commit) for reference, base in bases.items()))

    def _render(self, app: Application, snapshot: Snapshot) -> Build:
        """Return what the folder of an Application renders to, or the folders of several sources together."""
        builds = [
            (name, self._renderer.render(snapshot, path, renderer, chart))
            for name, path, renderer, chart in app.renders
        ]
        if not isinstance(app.source, SourceGroup):
            return builds[0][1]
        return joined_build(builds, app.destination.namespace, app.chart)

    def forget(self, key: str) -> None:
        """Forget the repositories of an Application that is gone, so that their mirrors are deleted."""
        self._urls.pop(key, None)

    def trace(self, app: Application, snapshot: Snapshot, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields; see ``Renderer.trace``."""
        app = self.with_inputs(app)
        snapshot = replace(snapshot, tenant=app.namespace)
        return self._fetcher(app).collect(lambda remotes: self._trace(app, with_remotes(snapshot, remotes), wanted))[1]

    def _trace(self, app: Application, snapshot: Snapshot, wanted: FieldSelection) -> Traces:
        traces: Traces = {}
        for _, path, renderer, chart in app.renders:
            traces |= self._renderer.trace(snapshot, path, renderer, chart, wanted)
        return traces

    def files(self, app: Application, snapshot: Snapshot, build: Build) -> Snapshot:
        """Return a snapshot with the files of other repositories that a build used."""
        fetcher = self._fetcher(app)
        return with_remotes(
            snapshot, {reference: fetcher.fetch(reference, "", commit) for reference, commit in build.remotes}
        )

    def is_current(self, app: Application, build: Build) -> bool:
        """
        Return whether a build may still be used: it has no more objects than the policies allow now, it is of a chart
        with the options that the Application has now, its references are allowed now, and they name the same commits.

        A server is asked once per interval.
        """
        if len(build.manifests) > self._max_objects(app):
            return False
        if build.chart is not None and build.chart != self.with_inputs(app).chart:
            return False
        if not build.remotes:
            return True
        fetcher = self._fetcher(app)
        try:
            for reference, _ in build.remotes:  # before any server is asked, which may not answer
                fetcher.allowed(reference)
        except Refused:
            return False
        return not any(fetcher.has_moved(reference, commit) for reference, commit in build.remotes)

    def fetch(self, app: Application, reference: str, location: str) -> RemoteBase:
        """
        Return what a change names of another repository, with the rights that the Application has for its own commits.

        Raise as a render does; its mirror is kept until the Application is rendered again.
        """
        base = self._fetcher(app).fetch(reference, location)
        self._urls[app.key] = self._urls.get(app.key, frozenset()) | {parsed(reference, "").url}
        return base

    def _fetcher(self, app: Application) -> RemoteFetcher:
        def credentials_for(url: str) -> Credentials:
            """Return the credentials of the Application for the host that they are for, none for others."""
            # credentials are for one host: a reference in a commit must not send them to another one
            part = next((part for part in app.source.parts if _authority(url) == _authority(part.repo_url)), None)
            if part is None:
                return Credentials()
            source = part.model_copy(update={"repo_url": url})
            try:
                return self._credentials_of(replace(app, source=source))
            except Refused:  # the Secret is for other repositories of the host; this one may be public
                return Credentials()

        policies = self._policies_of(app)
        interval = app.sync.interval
        is_signed = any(part.verify.mode == "SignedCommits" for part in app.source.parts) or any(
            policy.trust for policy in policies
        )
        return RemoteFetcher(self._source, credentials_for, policies, interval, only_commits=is_signed)


def with_remotes(snapshot: Snapshot, bases: Mapping[str, RemoteBase]) -> Snapshot:
    """Return a snapshot whose tree has the files of other repositories too."""
    return replace(snapshot, tree=mounted(snapshot.tree, bases), remotes=tuple(bases.values())) if bases else snapshot


def _authority(url: str) -> str:
    """Return the scheme and host of a URL, which must be equal for credentials to be used."""
    if "://" not in url:
        return url.partition(":")[0]
    parts = urlsplit(url)
    # a Helm repository at the host of a Git server is signed in to as that
    return f"{parts.scheme.removeprefix(CHART_SCHEME)}://{parts.netloc.rpartition('@')[2]}"
