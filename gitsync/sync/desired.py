"""Render: what a commit declares, rendered at most once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, Live, Renderer, Source
from gitsync.render.build import Build
from gitsync.render.provenance.locate import place_of
from gitsync.secrets.sops import is_encrypted
from gitsync.sync.cache import Memory, Rendered
from gitsync.sync.credentials import decryption_keys
from gitsync.sync.decrypt import open_manifests
from gitsync.sync.fetch import Fetcher
from gitsync.sync.observe import declare
from gitsync.sync.reconcile import Stage, Turn

KeysOf = Callable[[Application, Cluster, Live], tuple[str, ...]]
"""Return the texts of the keys that open what an application encrypted."""

_KEPT = 2
"""The commit that is followed, and the last good one."""


class Desire:
    """Know what commits declare for an application."""

    def __init__(
        self,
        source: Source,
        renderer: Renderer,
        cluster: Cluster,
        live: Live,
        fetcher: Fetcher,
        keys_of: KeysOf = decryption_keys,
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._cluster = cluster
        self._live = live
        self._fetcher = fetcher
        self._keys_of = keys_of

    def of(self, turn: Turn, memory: Memory, commit: Commit) -> Mapping[ObjectRef, Manifest]:
        """
        Return the objects that a commit declares, as they are applied; the very same ones while nothing changed.

        A commit that touches no file of an earlier render costs nothing. Raise InvalidInput with ``file:line``; the
        same commit is not rendered again to say so again. Where nothing is left of an application that holds objects,
        it declares none: the gate then has a person say whether all are to be deleted.
        """
        turn.stage = Stage.RENDER
        try:
            rendered = self._rendered(turn, memory, commit)
        except EmptyRender as error:
            if not len(turn.inventory):
                raise
            rendered = Rendered(Build((), frozenset(), (str(error),)))
        turn.rendered = len(rendered.build.manifests)
        turn.warnings = rendered.build.warnings
        keys = self._keys(turn, rendered.build)
        is_same = rendered.app == turn.app and rendered.opened_by == keys
        if rendered.declared is None or not rendered.is_complete or not is_same:
            manifests = self._opened(turn, memory, commit, rendered.build, keys)
            if memory.placed_for != turn.app:
                memory.placed_for, memory.placed = turn.app, {}
            rendered.declared, rendered.is_complete = declare(turn.app, manifests, self._cluster, memory.placed)
            rendered.app, rendered.opened_by = turn.app, keys
        return rendered.declared

    def _keys(self, turn: Turn, build: Build) -> tuple[str, ...]:
        """Return the texts of the keys that the application names; none where nothing is encrypted."""
        if not any(is_encrypted(manifest) for manifest in build.manifests):
            return ()
        return self._keys_of(turn.app, self._cluster, self._live)

    def _opened(
        self, turn: Turn, memory: Memory, commit: Commit, build: Build, keys: tuple[str, ...]
    ) -> Sequence[Manifest]:
        """Return the manifests of a build in the clear; the processes that render hold no keys."""
        if not keys:
            return build.manifests
        tree = self._fetcher.snapshot(turn, memory, commit.id).tree
        memory.snapshot = None
        return open_manifests(build, tree, keys)

    def place(self, turn: Turn, memory: Memory, manifest: Manifest, field: str) -> str:
        """Return where a field of a rendered object was written, by reading the files of the commit again."""
        assert turn.goal is not None
        tree = self._fetcher.snapshot(turn, memory, turn.goal.id).tree
        memory.snapshot = None
        return place_of(tree, sorted(memory.rendered[turn.goal.id].build.files_read), manifest, field)

    def _rendered(self, turn: Turn, memory: Memory, commit: Commit) -> Rendered:
        source = turn.app.source
        key = (source.repo_url, source.path, source.renderer)
        if memory.rendered_of != key:
            memory.rendered_of, memory.rendered, memory.refused = key, {}, None
        if turn.is_requested:
            memory.refused = None
        known = memory.rendered.get(commit.id)
        if known is not None:
            return known
        if memory.refused is not None and memory.refused[0] == commit.id:
            raise memory.refused[1]
        made = self._same_as_before(turn, memory, commit) or Rendered(self._render(turn, memory, commit))
        memory.rendered = {**dict(list(memory.rendered.items())[1 - _KEPT :]), commit.id: made}
        return made

    def _render(self, turn: Turn, memory: Memory, commit: Commit) -> Build:
        source = turn.app.source
        snapshot = self._fetcher.snapshot(turn, memory, commit.id)
        memory.snapshot = None  # its files are not needed any more
        try:
            return self._renderer.render(snapshot, source.path, source.renderer)
        except InvalidInput as error:
            memory.refused = (commit.id, error)
            raise

    def _same_as_before(self, turn: Turn, memory: Memory, commit: Commit) -> Rendered | None:
        """Return an earlier render when nothing that it read has changed since."""
        for before, rendered in memory.rendered.items():
            changed = self._source.changed_paths(turn.app.source, before, commit.id)
            if changed is not None and not _touches(changed, rendered.build.files_read):
                return rendered
        return None


def _touches(changed: Iterable[str], read: frozenset[str]) -> bool:
    """Whether a changed path is one that was read, or lies below a folder that was."""
    folders = tuple(path for path in read if path.endswith("/"))
    return any(path in read or path.startswith(folders) for path in changed)
