"""The objects that a commit declares, rendered at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from gitsync.errors import EmptyRender, GitsyncError, InvalidInput, detached
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest
from gitsync.objects.options import Options
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.tree import Tree
from gitsync.plan.applied import NOTHING as NOTHING_DECLARED
from gitsync.plan.applied import Declared, LoadDeclared
from gitsync.plan.mask import is_secret
from gitsync.plan.options import options_of
from gitsync.ports import Cluster, KeyServices, RenderStore
from gitsync.render.build import Build
from gitsync.render.provenance.trace import locate_field
from gitsync.render.resources.resource import Origin
from gitsync.render.yaml.reader import read_all
from gitsync.secrets import (
    AGE,
    DecryptionKeys,
    WrappedKey,
    check_binding,
    decrypt,
    identities_of,
    is_encrypted,
    open_by_age,
)
from gitsync.sync.cache import ReconcileCache, RenderResult
from gitsync.sync.input import Locator, ReconcileInput, SyncState, Target
from gitsync.sync.observe import build_desired
from gitsync.sync.polling.branches import reads
from gitsync.sync.polling.fetch import Fetcher
from gitsync.sync.remote_bases import RemoteBases
from gitsync.sync.status.report import FailureReason, Report


class Decryptor(NamedTuple):
    """What decrypts the Secrets of an Application: its keys, and the services that open what age does not."""

    keys_of: Callable[[Application], DecryptionKeys]
    services: KeyServices


_KEPT = 3
"""The commit that is followed, the one that was applied last, and the last good one."""


@dataclass(frozen=True, slots=True)
class RenderedCommit:
    """The objects of a commit as they are applied, their options, and what rendering reported."""

    commit: Commit
    objects: Mapping[ObjectRef, Manifest]
    options: Mapping[ObjectRef, Options]
    count: int
    warnings: tuple[str, ...]
    locate: Locator
    replaces: str
    remotes: tuple[tuple[str, str], ...] = ()
    """References to other repositories, and the commits that they named."""
    load_applied: LoadDeclared = lambda: NOTHING_DECLARED
    """Return what the commit declares that was applied last."""

    @property
    def origin(self) -> str:
        """The commit, and those of the other repositories that it reads."""
        return " ".join((self.commit.id, *(commit for _, commit in self.remotes)))

    def target(self, fetched: Commit | None, newest: str = "") -> Target:
        """Return the target of a reconcile to this commit; see there for the other commits."""
        known = fetched.id if fetched else ""
        return Target(
            self.commit,
            self.objects,
            self.options,
            known,
            newest,
            self.locate,
            self.replaces,
            self.origin,
            self.load_applied,
        )


class DesiredState:
    """Render commits to the objects that they declare for an Application."""

    def __init__(
        self,
        fetcher: Fetcher,
        renderer: RemoteBases,
        cluster: Cluster,
        decryption: Decryptor,
        kept: RenderStore | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._renderer = renderer
        self._cluster = cluster
        self._decryption = decryption
        self._kept = kept

    def load(self, inputs: ReconcileInput, cache: ReconcileCache, commit: Commit) -> RenderedCommit:
        """
        Return the objects that a commit declares, the identical ones while nothing changed.

        A commit that touches no file of a cached render is not rendered. Raise InvalidInput with ``file:line``; the
        error of a commit is cached. Where a commit emptied the path of an Application that holds objects, it declares
        none, and the gate requires an approval to delete all of them; a path that was empty in the applied commit too,
        or that the Application changed, is a mistake and raises InvalidInput.
        """
        app = inputs.app
        try:
            result = self._result(inputs, cache, commit)
        except EmptyRender as error:
            if not len(inputs.state.inventory) or inputs.state.applied_to(inputs.app) in ("", commit.id):
                raise
            result = RenderResult(Build((), frozenset(), (str(error),)))
        # only where something is encrypted: reading keys is an error where an Application names none
        keys = self._decryption.keys_of(app) if result.is_encrypted else DecryptionKeys()
        is_same = result.app == app and result.decryption_keys == keys
        if result.declared is None or not result.is_complete or not is_same:
            self._prepare(app, cache, commit, result, keys)
        return RenderedCommit(
            commit,
            # identical objects let the later stages skip validation, policies and dry runs
            result.declared or {},
            result.options,
            len(result.build.manifests),
            result.build.warnings,
            partial(self._locate, app, cache, commit),
            self._fetcher.replaced(inputs, cache.git, commit.id),
            result.build.remotes,
            partial(self._load_applied, inputs, cache, commit),
        )

    def _load_applied(self, inputs: ReconcileInput, cache: ReconcileCache, commit: Commit) -> Declared:
        """
        Return what the commit that was applied last declares, nothing where that is this one or cannot be rendered.

        Without it the state of an object may be unknown, and what others changed of it is classified as a change.
        """
        applied = inputs.state.applied_to(inputs.app)
        if applied in ("", commit.id):
            return NOTHING_DECLARED
        try:
            rendered = self.load(inputs, cache, Commit(applied))
        except GitsyncError:
            return NOTHING_DECLARED  # lost: the last state; the docstring tells what that costs
        return Declared(rendered.objects, rendered.origin)

    def load_for(self, report: Report, cache: ReconcileCache, commit: Commit) -> RenderedCommit:
        """Load the objects of a commit for a running reconcile, and report what rendering found."""
        report.stage = FailureReason.RENDER
        rendered = self.load(report.inputs, cache, commit)
        report.rendered = (rendered.count, rendered.warnings)
        report.remotes = rendered.remotes
        if report.inputs.state.applied_to(report.inputs.app) == commit.id:
            _forget_others(report.inputs.state, cache, commit)
        return rendered

    def last_change(self, inputs: ReconcileInput, cache: ReconcileCache, commit: Commit) -> Commit:
        """
        Return the commit that the status reports where nothing that the Application reads changed since, else this one.

        So a commit that does not affect an Application writes no status, and neither ends its reviews nor its rollback.
        A requested sync, and another replica that waits for this Application, want this commit in the status.
        """
        reported = inputs.state.fetched_for(inputs.app)
        if reported in ("", commit.id) or inputs.is_requested or cache.git.is_report_due:
            cache.git.is_report_due = False
            return commit
        try:
            changed = self._fetcher.changed_paths(inputs.app, reported, commit.id)
            if changed is None or reads(self._result(inputs, cache, commit).build.files_read, changed):
                return commit
            # the commit is read once for its subject and author, which the status reports; its files are not kept
            if cache.git.last_change is None or cache.git.last_change.id != reported:
                cache.git.last_change = self._fetcher.snapshot(inputs.app, cache.git, reported).commit
                cache.git.snapshot = None
        except GitsyncError:  # rendering reports it
            return commit
        # it was rendered for the newer commit, and no file that it read differs
        cache.render.commits.setdefault(reported, cache.render.commits[commit.id])
        return cache.git.last_change

    def _prepare(
        self, app: Application, cache: ReconcileCache, commit: Commit, result: RenderResult, keys: DecryptionKeys
    ) -> None:
        """Make the objects of a rendered commit for an Application."""
        manifests = self._decrypted(app, cache, commit, result.build, keys)
        if cache.render.prepared_for != app:
            cache.render.prepared_for = app
            cache.render.prepared = {}
        objects, result.is_complete = build_desired(app, manifests, self._cluster, cache.render.prepared)
        result.options = {ref: options_of(manifest) for ref, manifest in objects.items()}
        result.declared = objects
        result.app = app
        result.decryption_keys = keys

    def forget(self, key: str) -> None:
        """Forget what an Application that is gone has read of other repositories."""
        self._renderer.forget(key)

    def _decrypted(
        self, app: Application, cache: ReconcileCache, commit: Commit, build: Build, keys: DecryptionKeys
    ) -> Sequence[Manifest]:
        """Return the decrypted manifests of a build; the render processes have no keys."""
        if not keys.secrets:
            return build.manifests
        tree = self._renderer.files(app, self._fetcher.snapshot(app, cache.git, commit.id), build).tree
        # the files of a commit may take megabytes, and are needed for this read only
        cache.git.snapshot = None
        return decrypt_manifests(build, tree, keys, self._decryption.services, app.destination.namespace)

    def _locate(self, app: Application, cache: ReconcileCache, commit: Commit, manifest: Manifest, field: str) -> str:
        """Return where a field of a rendered object was written, by reading the files of the commit again."""
        build = cache.render.commits[commit.id].build
        tree = self._renderer.files(app, self._fetcher.snapshot(app, cache.git, commit.id), build).tree
        cache.git.snapshot = None
        return locate_field(tree, sorted(build.files_read), manifest, field)

    def _result(self, inputs: ReconcileInput, cache: ReconcileCache, commit: Commit) -> RenderResult:
        source = inputs.app.source
        render = cache.render
        folders = ((part.path, part.renderer, part.helm) for part in source.parts)
        key = (source.repo_url, *folders)
        # the branch is not in the key: the same commit renders to the same objects
        if render.source != key:
            render.source = key
            render.commits = self._load_kept(inputs.app)
            render.error = None
        # a user who requests a sync expects another attempt, though a commit cannot change
        if inputs.is_requested:
            render.error = None
        render.commits = {
            id: made for id, made in render.commits.items() if self._renderer.is_current(inputs.app, made.build)
        }
        known = render.commits.get(commit.id)
        if known is not None:
            return known
        # a chart may refuse the namespace of the destination, and a policy may be another one: neither is in the key
        if render.error is not None:
            conditions = self._renderer.conditions(inputs.app)
            if render.error[:2] == (commit.id, conditions):
                raise detached(render.error[2])
        made = self._same_as_before(inputs.app, cache, commit) or self._render(inputs.app, cache, commit)
        render.commits = {**dict(list(render.commits.items())[1 - _KEPT :]), commit.id: made}
        return made

    def _render(self, app: Application, cache: ReconcileCache, commit: Commit) -> RenderResult:
        conditions = self._renderer.conditions(app)
        snapshot = self._fetcher.snapshot(app, cache.git, commit.id)
        cache.git.snapshot = None  # its files are not needed any more
        try:
            build = self._renderer.render(app, snapshot)
            build = build._replace(warnings=(*snapshot.warnings, *build.warnings))
        except InvalidInput as error:
            # only the message is kept: a traceback would hold the files of the commit in memory
            cache.render.error = (commit.id, conditions, detached(error))
            raise
        if self._kept is not None:
            self._kept.keep(app, commit.id, build)
        return _result_of(build)

    def _load_kept(self, app: Application) -> dict[str, RenderResult]:
        """Return the build that was kept for the source before a restart, by its commit."""
        kept = self._kept.load(app) if self._kept is not None else None
        return {kept[0]: _result_of(kept[1])} if kept is not None else {}

    def _same_as_before(self, app: Application, cache: ReconcileCache, commit: Commit) -> RenderResult | None:
        """Return a cached render none of whose input files changed since."""
        for cached_commit, rendered in cache.render.commits.items():
            changed = self._fetcher.changed_paths(app, cached_commit, commit.id)
            if changed is not None and not reads(rendered.build.files_read, changed):
                return rendered
        return None


def _forget_others(state: SyncState, cache: ReconcileCache, commit: Commit) -> None:
    """Forget the commits before the applied one, except the last good one: each takes the memory of all its objects."""
    operation = cache.execution.operation
    needed = {commit.id, state.last_good, operation.commit.id if operation else ""}
    cache.render.commits = {id: made for id, made in cache.render.commits.items() if id in needed}


def _result_of(build: Build) -> RenderResult:
    return RenderResult(build, any(map(is_encrypted, build.manifests)))


_WHERE = "spec.source.decryption.secretRef.name"


def decrypt_manifests(
    build: Build, tree: Tree, keys: DecryptionKeys, services: KeyServices, namespace: str
) -> tuple[Manifest, ...]:
    """
    Return the manifests of a build with SOPS-encrypted Secrets decrypted; ``tree`` has their files.

    ``namespace`` is that of objects which name none. Only Secrets may be encrypted, since the values of other kinds are
    shown. Raise InvalidInput with file and object when one cannot be decrypted, or was encrypted for another namespace,
    TransientError where a key service does not answer.
    """
    identities = tuple(identity for text in keys.age_files for identity in identities_of(text, _WHERE))

    def open_key(wrapped: WrappedKey) -> bytes | None:
        return open_by_age(wrapped, identities) if wrapped.kind == AGE else services.open(wrapped, keys)

    manifests = []
    for manifest, origin in zip(build.manifests, build.sources, strict=True):
        if not is_encrypted(manifest):
            manifests.append(manifest)
            continue
        ref = ref_of(manifest)
        _check_kind(ref, origin)
        documents = read_all(tree.read(origin.file), origin.file)
        target = ref._replace(namespace=ref.namespace or namespace)
        check_binding(manifest, documents, target, is_shared=keys.is_shared, location=origin.file)
        manifests.append(decrypt(manifest, documents, open_key, location=origin.file, subject=str(ref)))
    return tuple(manifests)


def _check_kind(ref: ObjectRef, origin: Origin) -> None:
    if not is_secret(ref):
        raise InvalidInput(
            f"a {ref.kind} is encrypted by SOPS, but its values would be shown in plans and diffs",
            location=origin.file,
            object=str(ref),
            hint="put what is secret into a Secret, and refer to that",
        )
