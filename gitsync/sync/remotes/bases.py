"""Render commits whose kustomizations name folders in other repositories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from gitsync.errors import Refused
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.ports import Credentials, RemoteBase, Renderer, Snapshot, Source
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.sync.remotes.fetcher import RemoteFetcher, mounted, parsed


class RemoteBases:
    """Render Applications with the folders in other repositories that they name; see ``RemoteFetcher``."""

    def __init__(
        self,
        renderer: Renderer,
        source: Source,
        credentials_of: Callable[[Application], Credentials],
        policies_of: Callable[[Application], Sequence[Policy]],
    ) -> None:
        self._renderer = renderer
        self._source = source
        self._credentials_of = credentials_of
        self._policies_of = policies_of
        self._urls: dict[str, frozenset[str]] = {}

    @property
    def repositories(self) -> frozenset[str]:
        """The URLs of the other repositories that Applications have used."""
        return frozenset().union(*list(self._urls.values()))

    def render(self, app: Application, snapshot: Snapshot) -> Build:
        """Return what an Application's path renders to, with the commits of other repositories that it used."""
        path = app.source.path
        renderer = app.source.renderer
        found, build = self._fetcher(app).collect(
            lambda remotes: self._renderer.render(with_remotes(snapshot, remotes), path, renderer)
        )
        self._urls[app.key] = frozenset(parsed(reference, "").url for reference in found)
        return build._replace(remotes=tuple((reference, base.commit) for reference, base in found.items()))

    def trace(self, app: Application, snapshot: Snapshot, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields; see ``Renderer.trace``."""
        path = app.source.path
        renderer = app.source.renderer
        return self._fetcher(app).collect(
            lambda remotes: self._renderer.trace(with_remotes(snapshot, remotes), path, renderer, wanted)
        )[1]

    def files(self, app: Application, snapshot: Snapshot, build: Build) -> Snapshot:
        """Return a snapshot with the files of other repositories that a build used."""
        fetcher = self._fetcher(app)
        return with_remotes(snapshot, {one: fetcher.fetch(one, "", commit) for one, commit in build.remotes})

    def is_current(self, app: Application, build: Build) -> bool:
        """
        Return whether a build may still be used: its references are allowed now, and name the same commits.

        A server is asked once per interval.
        """
        if not build.remotes:
            return True
        fetcher = self._fetcher(app)
        try:
            for reference, _ in build.remotes:  # before any server is asked, which may not answer
                fetcher.allowed(reference)
        except Refused:
            return False
        return not any(fetcher.has_moved(reference, commit) for reference, commit in build.remotes)

    def _fetcher(self, app: Application) -> RemoteFetcher:
        def credentials_for(url: str) -> Credentials:
            """Return the credentials of the Application for the host that they are for, none for others."""
            return self._credentials_of(app) if _authority(url) == _authority(app.source.repo_url) else Credentials()

        policies = self._policies_of(app)
        interval = app.sync.interval
        is_signed = app.source.verify.mode == "SignedCommits" or any(policy.trust for policy in policies)
        return RemoteFetcher(self._source, credentials_for, policies, interval, only_commits=is_signed)


def with_remotes(snapshot: Snapshot, found: Mapping[str, RemoteBase]) -> Snapshot:
    """Return a snapshot whose tree has the files of other repositories too."""
    return replace(snapshot, tree=mounted(snapshot.tree, found), remotes=tuple(found.values())) if found else snapshot


def _authority(url: str) -> str:
    """Return the scheme and host of a URL, which must be equal for credentials to be used."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if "://" in url else url.partition(":")[0]
