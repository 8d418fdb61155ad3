"""Render: what a commit declares, rendered at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, LiveCache, Renderer, Source
from gitsync.render.build import Build
from gitsync.render.provenance.locate import locate_field
from gitsync.secrets.sops import is_encrypted
from gitsync.sync.cache import ReconcileCache, RenderResult
from gitsync.sync.credentials import decryption_keys
from gitsync.sync.decrypt import decrypt_manifests
from gitsync.sync.fetch import Fetcher
from gitsync.sync.observe import build_desired
from gitsync.sync.reconcile import FailureReason, Reconcile

DecryptionKeys = Callable[[Application, Cluster, LiveCache], tuple[str, ...]]
"""Return the texts of the keys that open what an application encrypted."""

_KEPT = 2
"""The commit that is followed, and the last good one."""


class DesiredState:
    """Know what commits declare for an application."""

    def __init__(
        self,
        source: Source,
        renderer: Renderer,
        cluster: Cluster,
        live: LiveCache,
        fetcher: Fetcher,
        keys_of: DecryptionKeys = decryption_keys,
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._cluster = cluster
        self._live = live
        self._fetcher = fetcher
        self._keys_of = keys_of

    def load(self, run: Reconcile, cache: ReconcileCache, commit: Commit) -> Mapping[ObjectRef, Manifest]:
        """
        Return the objects that a commit declares, as they are applied; the very same ones while nothing changed.

        A commit that touches no file of an earlier render costs nothing. Raise InvalidInput with ``file:line``; the
        same commit is not rendered again. Where a commit emptied the path of an application that holds objects, it
        declares none, and the gate holds the plan for approval; a path that was empty in the applied commit too, or
        that the application changed, is a mistake and raises InvalidInput.
        """
        run.stage = FailureReason.RENDER
        try:
            rendered = self._rendered(run, cache, commit)
        except EmptyRender as error:
            if not len(run.inventory) or run.applied_before in ("", commit.id):
                raise
            rendered = RenderResult(Build((), frozenset(), (str(error),)))
        run.rendered_count = len(rendered.build.manifests)
        run.warnings = rendered.build.warnings
        keys = self._keys(run, rendered.build)
        is_same = rendered.app == run.app and rendered.decryption_keys == keys
        if rendered.declared is None or not rendered.is_complete or not is_same:
            manifests = self._decrypted(run, cache, commit, rendered.build, keys)
            if cache.prepared_for != run.app:
                cache.prepared_for, cache.prepared = run.app, {}
            rendered.declared, rendered.is_complete = build_desired(run.app, manifests, self._cluster, cache.prepared)
            rendered.app, rendered.decryption_keys = run.app, keys
        return rendered.declared

    def _keys(self, run: Reconcile, build: Build) -> tuple[str, ...]:
        """Return the texts of the keys that the application names; none where nothing is encrypted."""
        if not any(is_encrypted(manifest) for manifest in build.manifests):
            return ()
        return self._keys_of(run.app, self._cluster, self._live)

    def _decrypted(
        self, run: Reconcile, cache: ReconcileCache, commit: Commit, build: Build, keys: tuple[str, ...]
    ) -> Sequence[Manifest]:
        """Return the manifests of a build in the clear; the processes that render hold no keys."""
        if not keys:
            return build.manifests
        tree = self._fetcher.snapshot(run, cache, commit.id).tree
        cache.snapshot = None
        return decrypt_manifests(build, tree, keys)

    def locate(self, run: Reconcile, cache: ReconcileCache, manifest: Manifest, field: str) -> str:
        """Return where a field of a rendered object was written, by reading the files of the commit again."""
        assert run.target_commit is not None
        tree = self._fetcher.snapshot(run, cache, run.target_commit.id).tree
        cache.snapshot = None
        return locate_field(tree, sorted(cache.rendered[run.target_commit.id].build.files_read), manifest, field)

    def _rendered(self, run: Reconcile, cache: ReconcileCache, commit: Commit) -> RenderResult:
        source = run.app.source
        key = (source.repo_url, source.path, source.renderer)
        if cache.rendered_of != key:
            cache.rendered_of, cache.rendered, cache.render_error = key, {}, None
        if run.is_requested:
            cache.render_error = None
        known = cache.rendered.get(commit.id)
        if known is not None:
            return known
        if cache.render_error is not None and cache.render_error[0] == commit.id:
            raise cache.render_error[1]
        made = self._same_as_before(run, cache, commit) or RenderResult(self._render(run, cache, commit))
        cache.rendered = {**dict(list(cache.rendered.items())[1 - _KEPT :]), commit.id: made}
        return made

    def _render(self, run: Reconcile, cache: ReconcileCache, commit: Commit) -> Build:
        source = run.app.source
        snapshot = self._fetcher.snapshot(run, cache, commit.id)
        cache.snapshot = None  # its files are not needed any more
        try:
            return self._renderer.render(snapshot, source.path, source.renderer)
        except InvalidInput as error:
            cache.render_error = (commit.id, error)
            raise

    def _same_as_before(self, run: Reconcile, cache: ReconcileCache, commit: Commit) -> RenderResult | None:
        """Return an earlier render when nothing that it read has changed since."""
        for before, rendered in cache.rendered.items():
            changed = self._source.changed_paths(run.app.source, before, commit.id)
            if changed is not None and not _touches(changed, rendered.build.files_read):
                return rendered
        return None


def _touches(changed: Iterable[str], read: frozenset[str]) -> bool:
    """Whether a changed path is one that was read, or lies below a folder that was."""
    folders = tuple(path for path in read if path.endswith("/"))
    return any(path in read or path.startswith(folders) for path in changed)
