"""What the controller would do with one Application, worked out once, by its own functions and by requests alone."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gitsync.cli.adapters import CallerCluster, DirectLiveCache, FolderSource, InProcessRenderer
from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.options import Target
from gitsync.errors import GitsyncError, InvalidInput, Refused, Rejected
from gitsync.gate.decide import decide
from gitsync.gate.policy_files import policy_for
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import ABSENT, DRIFT, Change, Plan, Verdict
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import mask_change
from gitsync.plan.tracking import owner_of
from gitsync.ports import Cluster, Credentials, LiveCache, Source
from gitsync.render.provenance.trace import Traces
from gitsync.source.local import open_path
from gitsync.source.repositories import Repositories
from gitsync.source.validation import SAFE_SCHEMES
from gitsync.source.verify import verify_commit
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.credentials import credentials_of, decryption_keys
from gitsync.sync.dependencies import blocking_dependency
from gitsync.sync.desired import DesiredState
from gitsync.sync.fetch import Fetcher
from gitsync.sync.observe import confirm_missing, created_namespace, observe
from gitsync.sync.planner import Planner
from gitsync.sync.reconcile import Reconcile
from gitsync.sync.state_store import StateStore
from gitsync.sync.validation import policy_violations, validate_desired
from gitsync.wiring import SystemClock, read_policies

_DRY_RUNS = 8
"""Dry runs beside each other."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    An Application, its manifest as it was read, what of it was compared, and the masked plan.

    ``traces`` say where the fields that differ come from, ``notes`` what else keeps the controller from acting.
    """

    application: Application
    manifest: Manifest
    revision: str
    plan: Plan
    verdict: Verdict
    traces: Traces
    notes: tuple[str, ...] = ()


class Evaluator:
    """What commands work with: a client of the cluster, and the mirrors in the data folder."""

    def __init__(self, site: Target) -> None:
        self.client = connect(site.kubeconfig)
        self.cluster = CallerCluster(self.client)
        self.live = DirectLiveCache(self.cluster)
        schemes = (*SAFE_SCHEMES, "file") if site.file_urls else SAFE_SCHEMES
        self.source = Repositories(site.data / "mirrors", schemes=schemes)
        self._site = site
        self._clock = SystemClock()

    def evaluate(self, namespace: str, name: str, local: Path | None = None) -> Evaluation:
        """
        Compare what Git, or a local folder, declares now with the cluster; nothing is written.

        Raise what the controller would say of a commit that it cannot use. Objects whose comparison only the API server
        can be sure of are asked by a dry run.
        """
        manifest = one_application(self.client, namespace, name)
        run, cache = self._turn(manifest), ReconcileCache()
        if local is not None:
            place = open_path(str(local))
            run.app = replace(run.app, source=run.app.source.model_copy(update={"path": place.path or "."}))
            return self._evaluate(run, cache, FolderSource(self._site.data / "mirrors", place.tree), Commit(""), ())
        notes = self._fetched(run, cache)
        assert run.commit is not None
        return self._evaluate(run, cache, self.source, run.commit, notes)

    def evaluate_commit(self, manifest: Manifest, commit: str) -> Evaluation:
        """Compare what a commit declares with the cluster."""
        run, cache = self._turn(manifest), ReconcileCache()
        return self._evaluate(run, cache, self.source, Commit(commit), ())

    def credentials(self, app: Application) -> Credentials:
        """Return how to sign in at the Git server of an Application."""
        return credentials_of(app, self.cluster, self.live)

    def _turn(self, manifest: Manifest) -> Reconcile:
        run = Reconcile.start(manifest, self._clock.now())
        run.app = parse_application(manifest)
        return run

    def _fetcher(self, source: Source) -> Fetcher:
        return Fetcher(source, verify_commit, self.cluster, self.live, self._clock)

    def _desire(self, source: Source) -> DesiredState:
        return DesiredState(source, InProcessRenderer(), self.cluster, self.live, self._fetcher(source), self._keys)

    def _keys(self, app: Application, cluster: Cluster, live: LiveCache) -> tuple[str, ...]:
        """Return the keys of the Application's Secret, or of a file where one is given in its place."""
        if self._site.age_key is None or not app.source.decryption_secret:
            return decryption_keys(app, cluster, live)
        try:
            return (self._site.age_key.read_text(encoding="utf-8"),)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("is no file of age keys that can be read", location="--age-key") from error

    def _fetched(self, run: Reconcile, cache: ReconcileCache) -> tuple[str, ...]:
        """Fetch what the Application follows; return what there is to say of it."""
        fetcher = self._fetcher(self.source)
        try:
            fetcher.fetch(run, cache)
        except Refused as refusal:  # of a rewritten branch, which a sync takes that a person asks for
            run.requested_by = "a person"
            fetcher.fetch(run, cache)
            return (str(refusal),)
        return (f"compared with the last known commit: {run.source_error}",) if run.source_error else ()

    def _evaluate(
        self, run: Reconcile, cache: ReconcileCache, source: Source, commit: Commit, notes: tuple[str, ...]
    ) -> Evaluation:
        run.target_commit = commit
        desire, state = self._desire(source), StateStore(self.cluster, self.live)
        desired = desire.load(run, cache, commit)
        seen = confirm_missing(observe(desired, run.inventory, self.cluster, self.live), run.inventory, self.cluster)
        run.observation = seen
        validate_desired(seen, partial(desire.locate, run, cache))
        notes += self._load_claims(run, state)
        with ThreadPoolExecutor(_DRY_RUNS) as pool:
            Planner(self.cluster, state, pool).plan(run, cache)
        assert run.plan is not None
        policies, rules = read_policies(self._site.policies)
        verdict = decide(
            run.plan,
            run.app,
            policy_for(policies, run.app),
            None,
            run.now,
            manual=run.is_requested,
            violations=policy_violations(run.app, run.plan, policies, rules),
        )
        return Evaluation(
            run.app,
            run.manifest,
            commit.id,
            replace(run.plan, changes=tuple(map(mask_change, run.plan.changes))),
            verdict,
            self._traced(run, source, commit),
            (*notes, *self._blocking_notes(run)),
        )

    def _load_claims(self, run: Reconcile, state: StateStore) -> tuple[str, ...]:
        """
        Tell the state what other Applications declare in Git, where that matters for this one's plan.

        It matters for a declared object that bears another's marks, and for any object that would be deleted.
        """
        seen = run.observation
        assert seen is not None
        owners = {owner_of(seen.live[ref]) for ref in seen.desired if ref in seen.live} - {"", run.app.key}
        leaves = any(ref in seen.live and ref not in seen.desired for ref in run.inventory)
        if not owners and not leaves:
            return ()
        try:
            others = all_applications(self.client)
        except Rejected:
            return ("other Applications cannot be read, so nobody knows whether one of them declares the same object",)
        for manifest in others:
            key = f"{metadata_of(manifest)['namespace']}/{metadata_of(manifest)['name']}"
            if key != run.app.key and (leaves or key in owners):
                state.set_declared(key, self._declared(manifest))
        return ()

    def _declared(self, manifest: Manifest) -> frozenset[ObjectRef]:
        """Return what another Application declares in Git now; where that cannot be told, what it holds."""
        try:
            run, cache = self._turn(manifest), ReconcileCache()
            commit = self._fetcher(self.source).fetch(run, cache)
            desired = self._desire(self.source).load(run, cache, commit)
        except GitsyncError:
            return frozenset(Inventory.from_status(at(manifest, "status", default={})))
        created = created_namespace(run.app)
        return frozenset(ref for ref in desired if created.get(ref) != desired[ref])

    def _traced(self, run: Reconcile, source: Source, commit: Commit) -> Traces:
        assert run.plan is not None
        wanted = {change.ref: fields for change in run.plan.writes if (fields := _declared_fields(change))}
        if not wanted:
            return {}
        snapshot = source.snapshot(run.app.source, self.credentials(run.app), commit.id)
        return InProcessRenderer().trace(snapshot, run.app.source.path, run.app.source.renderer, wanted)

    def _blocking_notes(self, run: Reconcile) -> Iterable[str]:
        """Yield why the controller does nothing of itself, though nothing forbids it."""
        app, pin = run.app, run.pin
        if app.suspend:
            yield f"suspended: nothing is written until somebody resumes it: gitsync resume {app.name}"
        if run.commit is not None and pin is not None and pin.bad_commit == run.commit.id:
            yield pin.message
        if not app.sync.automated:
            yield f"automation is off: it waits until somebody asks: gitsync sync {app.name}"
        if run.plan is not None and run.plan.writes and not run.is_applied:
            waits = blocking_dependency(app, run.plan.revision, self._find)
            if waits:
                yield waits

    def _find(self, key: str) -> Manifest | None:
        namespace, _, name = key.partition("/")
        try:
            return one_application(self.client, namespace, name)
        except InvalidInput:
            return None


def _declared_fields(change: Change) -> list[str]:
    """Return the fields of a step that Git declares otherwise; the object itself where it is new."""
    fields = [item.path for item in change.differences if item.kind in DRIFT and item.desired is not ABSENT]
    return fields or ([""] if change.desired is not None and change.live is None else [])
