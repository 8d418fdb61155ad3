"""Evaluate one Application once, with the controller's own code and without watches."""

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
from gitsync.runtime.clock import SystemClock
from gitsync.services.policies import read_policies
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

_DRY_RUNS = 8
"""Maximum number of parallel dry runs."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    An Application, its manifest, the revision that was compared, and the masked plan with the gate's verdict.

    ``traces`` name the files and lines of the fields that differ; ``notes`` are further reasons why the controller
    does not act.
    """

    application: Application
    manifest: Manifest
    revision: str
    plan: Plan
    verdict: Verdict
    traces: Traces
    notes: tuple[str, ...] = ()


class Evaluator:
    """Compare Git with the cluster, by a client of the cluster and the mirrors in the data folder."""

    def __init__(self, target: Target) -> None:
        self.client = connect(target.cluster)
        self.cluster = CallerCluster(self.client)
        self.live = DirectLiveCache(self.cluster)
        schemes = (*SAFE_SCHEMES, "file") if target.allows_file_urls else SAFE_SCHEMES
        self.source = Repositories(target.data / "mirrors", schemes=schemes)
        self._target = target
        self._clock = SystemClock()

    def evaluate(self, local: Path | None = None) -> Evaluation:
        """
        Compare what Git, or a local folder, declares now with the cluster; nothing is written.

        Raise the error that the controller reports for a commit that it cannot use. Objects that only the API server
        can compare are sent to it as dry runs.
        """
        manifest = one_application(self.client, self._target.namespace, self._target.name)
        run, cache = self._start(manifest), ReconcileCache()
        if local is not None:
            place = open_path(str(local))
            run.app = replace(run.app, source=replace(run.app.source, path=place.path or "."))
            return self._evaluate(run, cache, FolderSource(self._target.data / "mirrors", place.tree), Commit(""), ())
        notes = self._fetched(run, cache)
        assert run.commit is not None
        return self._evaluate(run, cache, self.source, run.commit, notes)

    def evaluate_commit(self, manifest: Manifest, commit: str) -> Evaluation:
        """Compare the objects that a commit declares with the cluster."""
        run, cache = self._start(manifest), ReconcileCache()
        return self._evaluate(run, cache, self.source, Commit(commit), ())

    def credentials(self, app: Application) -> Credentials:
        """Return the credentials for the Git server of an Application."""
        return credentials_of(app, self.cluster, self.live)

    def _start(self, manifest: Manifest) -> Reconcile:
        run = Reconcile.start(manifest, self._clock.now())
        run.app = parse_application(manifest)
        return run

    def _fetcher(self, source: Source) -> Fetcher:
        return Fetcher(source, verify_commit, self.cluster, self.live, self._clock)

    def _desired_state(self, source: Source) -> DesiredState:
        return DesiredState(source, InProcessRenderer(), self.cluster, self.live, self._fetcher(source), self._keys)

    def _keys(self, app: Application, cluster: Cluster, live: LiveCache) -> tuple[str, ...]:
        """Return the age keys of the given file, else of the Application's Secret."""
        if self._target.age_key is None or not app.source.decryption_keys:
            return decryption_keys(app, cluster, live)
        try:
            return (self._target.age_key.read_text(encoding="utf-8"),)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("cannot read the age key file", location="--age-key") from error

    def _fetched(self, run: Reconcile, cache: ReconcileCache) -> tuple[str, ...]:
        """Fetch the revision that the Application follows; return notes about the fetch."""
        fetcher = self._fetcher(self.source)
        try:
            fetcher.fetch(run, cache)
        except Refused as refusal:  # a rewritten branch, which a requested sync accepts
            run.requested_by = "the user"
            fetcher.fetch(run, cache)
            return (str(refusal),)
        return (f"compared with the last known commit: {run.source_error}",) if run.source_error else ()

    def _evaluate(
        self, run: Reconcile, cache: ReconcileCache, source: Source, commit: Commit, notes: tuple[str, ...]
    ) -> Evaluation:
        run.target_commit = commit
        loader, state = self._desired_state(source), StateStore(self.cluster, self.live)
        desired = loader.load(run, cache, commit)
        seen = confirm_missing(observe(desired, run.inventory, self.cluster, self.live), run.inventory, self.cluster)
        run.observation = seen
        validate_desired(seen, partial(loader.locate, run, cache))
        notes += self._load_claims(run, state)
        with ThreadPoolExecutor(_DRY_RUNS) as pool:
            Planner(self.cluster, state, pool).plan(run, cache)
        assert run.plan is not None
        policies, rules = read_policies(self._target.policies)
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
        Load the objects that other Applications declare in Git into the state, where this one's plan depends on them.

        It does for a declared object with the label of another Application, and for an object that would be pruned.
        """
        seen = run.observation
        assert seen is not None
        owners = {owner_of(seen.live[ref]) for ref in seen.desired if ref in seen.live} - {"", run.app.key}
        prunes = any(ref in seen.live and ref not in seen.desired for ref in run.inventory)
        if not owners and not prunes:
            return ()
        try:
            others = all_applications(self.client)
        except Rejected:
            return ("cannot list other Applications: conflicting ownership is not checked",)
        for manifest in others:
            key = f"{metadata_of(manifest)['namespace']}/{metadata_of(manifest)['name']}"
            if key != run.app.key and (prunes or key in owners):
                state.set_declared(key, self._declared(manifest))
        return ()

    def _declared(self, manifest: Manifest) -> frozenset[ObjectRef]:
        """Return the objects that another Application declares in Git; its inventory where Git cannot be read."""
        try:
            run, cache = self._start(manifest), ReconcileCache()
            commit = self._fetcher(self.source).fetch(run, cache)
            desired = self._desired_state(self.source).load(run, cache, commit)
        except GitsyncError:
            return frozenset(Inventory.from_status(at(manifest, "status", default={})))
        created = created_namespace(run.app)
        return frozenset(ref for ref in desired if created.get(ref) != desired[ref])

    def _traced(self, run: Reconcile, source: Source, commit: Commit) -> Traces:
        """Return the setters of the fields that the plan changes."""
        assert run.plan is not None
        wanted = {change.ref: fields for change in run.plan.writes if (fields := _declared_fields(change))}
        if not wanted:
            return {}
        snapshot = source.snapshot(run.app.source, self.credentials(run.app), commit.id)
        return InProcessRenderer().trace(snapshot, run.app.source.path, run.app.source.renderer, wanted)

    def _blocking_notes(self, run: Reconcile) -> Iterable[str]:
        """Yield the reasons why the controller does not run a plan that the gate allows."""
        app, pin = run.app, run.pin
        if app.suspend:
            yield f"suspended: nothing is written until: gitsync resume {app.name}"
        if run.commit is not None and pin is not None and pin.bad_commit == run.commit.id:
            yield pin.message
        if not app.sync.automated:
            yield f"automated sync is off: nothing is written until: gitsync sync {app.name}"
        if run.plan is not None and run.plan.writes and not run.is_applied:
            dependency = blocking_dependency(app, run.plan.revision, self._find)
            if dependency:
                yield dependency

    def _find(self, key: str) -> Manifest | None:
        namespace, _, name = key.partition("/")
        try:
            return one_application(self.client, namespace, name)
        except InvalidInput:
            return None


def _declared_fields(change: Change) -> list[str]:
    """Return the fields of a step that Git declares with another value; the object itself where it is new."""
    fields = [item.path for item in change.differences if item.kind in DRIFT and item.desired is not ABSENT]
    return fields or ([""] if change.desired is not None and change.live is None else [])
