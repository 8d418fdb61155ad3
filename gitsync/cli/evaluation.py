"""What the controller would do with one Application, worked out once, by its own functions and by requests alone."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from gitsync.cli.adapters import CallerCluster, DirectLiveCache, FolderSource, InProcessRenderer
from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.options import Target
from gitsync.errors import GitsyncError, InvalidInput, Refused, Rejected
from gitsync.gate.decide import decide
from gitsync.gate.policy_files import policy_for
from gitsync.objects.application import Application
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
from gitsync.sync.input import ReconcileInput
from gitsync.sync.observe import Observation, confirm_missing, created_namespace, observe
from gitsync.sync.planner import Planned, Planner
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
        given, cache = self._input(manifest), ReconcileCache()
        if local is not None:
            place = open_path(str(local))
            app = replace(given.app, source=replace(given.app.source, path=place.path or "."))
            source = FolderSource(self._site.data / "mirrors", place.tree)
            return self._evaluate(manifest, replace(given, app=app), source, Commit(""), cache)
        given, commit, notes = self._fetched(given, cache)
        found = self._evaluate(manifest, given, self.source, commit, cache)
        rollback = given.state.rollback
        if rollback is not None and rollback.bad_commit == commit.id:
            notes += (rollback.message,)
        return replace(found, notes=(*notes, *found.notes))

    def evaluate_commit(self, manifest: Manifest, commit: str) -> Evaluation:
        """Compare what a commit declares with the cluster."""
        return self._evaluate(manifest, self._input(manifest), self.source, Commit(commit), ReconcileCache())

    def credentials(self, app: Application) -> Credentials:
        """Return how to sign in at the Git server of an Application."""
        return credentials_of(app, self.cluster, self.live)

    def _input(self, manifest: Manifest) -> ReconcileInput:
        return ReconcileInput.parse(manifest, self._clock.now())

    def _fetcher(self, source: Source) -> Fetcher:
        return Fetcher(source, verify_commit, self.cluster, self.live, self._clock)

    def _desired(self, source: Source) -> DesiredState:
        return DesiredState(source, InProcessRenderer(), self.cluster, self.live, self._fetcher(source), self._keys)

    def _keys(self, app: Application, cluster: Cluster, live: LiveCache) -> tuple[str, ...]:
        """Return the keys of the Application's Secret, or of a file where one is given in its place."""
        if self._site.age_key is None or not app.source.decryption_keys:
            return decryption_keys(app, cluster, live)
        try:
            return (self._site.age_key.read_text(encoding="utf-8"),)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("is no file of age keys that can be read", location="--age-key") from error

    def _fetched(self, given: ReconcileInput, cache: ReconcileCache) -> tuple[ReconcileInput, Commit, tuple[str, ...]]:
        """Fetch what the Application follows; return it with notes about it."""
        fetcher = self._fetcher(self.source)
        polled = fetcher.poll(given, cache.git)
        try:
            commit = fetcher.checkout(given, cache.git)
        except Refused as refusal:  # of a rewritten branch, which a requested sync accepts
            given = replace(given, requested_by="a user")
            return given, fetcher.checkout(given, cache.git), (str(refusal),)
        return given, commit, (f"compared with the last known commit: {polled.error}",) if polled.error else ()

    def _evaluate(
        self, manifest: Manifest, given: ReconcileInput, source: Source, commit: Commit, cache: ReconcileCache
    ) -> Evaluation:
        desired, state = self._desired(source), StateStore(self.cluster, self.live)
        target = desired.load(given, cache, commit).target(commit)
        inventory = given.state.inventory
        seen = observe(target.desired, inventory, self.cluster, self.live)
        seen = confirm_missing(seen, inventory, self.cluster)
        if target.locate is not None:
            validate_desired(seen, target.locate)
        notes = self._load_claims(given, seen, state)
        with ThreadPoolExecutor(_DRY_RUNS) as pool:
            planned = Planner(self.cluster, state, pool).plan(given, target, seen, cache.plans)
        policies, rules = read_policies(self._site.policies)
        verdict = decide(
            planned.plan,
            given.app,
            policy_for(policies, given.app),
            None,
            given.now,
            manual=given.is_requested,
            violations=policy_violations(given.app, planned.plan, policies, rules),
        )
        return Evaluation(
            given.app,
            manifest,
            commit.id,
            replace(planned.plan, changes=tuple(map(mask_change, planned.plan.changes))),
            verdict,
            self._traced(planned, source),
            (*notes, *self._blocking_notes(planned)),
        )

    def _load_claims(self, given: ReconcileInput, seen: Observation, state: StateStore) -> tuple[str, ...]:
        """
        Store what other Applications declare in Git, where that matters for this one's plan.

        It matters for a declared object with the marks of another one, and for any object that would be deleted.
        """
        own = given.app.key
        owners = {owner_of(seen.live[ref]) for ref in seen.desired if ref in seen.live} - {"", own}
        leaves = any(ref in seen.live and ref not in seen.desired for ref in given.state.inventory)
        if not owners and not leaves:
            return ()
        try:
            others = all_applications(self.client)
        except Rejected:
            return ("other Applications cannot be read, so nobody knows whether one of them declares the same object",)
        for manifest in others:
            key = f"{metadata_of(manifest)['namespace']}/{metadata_of(manifest)['name']}"
            if key != own and (leaves or key in owners):
                state.set_declared(key, self._declared(manifest))
        return ()

    def _declared(self, manifest: Manifest) -> frozenset[ObjectRef]:
        """Return what another Application declares in Git; where that is unknown, its inventory."""
        try:
            given, cache, fetcher = self._input(manifest), ReconcileCache(), self._fetcher(self.source)
            fetcher.poll(given, cache.git)
            desired = self._desired(self.source).load(given, cache, fetcher.checkout(given, cache.git)).objects
        except GitsyncError:
            return frozenset(Inventory.from_status(at(manifest, "status", default={})))
        created = created_namespace(given.app)
        return frozenset(ref for ref in desired if created.get(ref) != desired[ref])

    def _traced(self, planned: Planned, source: Source) -> Traces:
        app = planned.app
        wanted = {change.ref: fields for change in planned.plan.writes if (fields := _declared_fields(change))}
        if not wanted:
            return {}
        snapshot = source.snapshot(app.source, self.credentials(app), planned.target.commit.id)
        return InProcessRenderer().trace(snapshot, app.source.path, app.source.renderer, wanted)

    def _blocking_notes(self, planned: Planned) -> Iterable[str]:
        """Yield why the controller does not sync by itself, though the gate allows it."""
        app = planned.app
        if app.suspend:
            yield f"suspended: nothing is written until somebody resumes it: gitsync resume {app.name}"
        if not app.sync.automated:
            yield f"automation is off: it waits until somebody asks: gitsync sync {app.name}"
        if planned.plan.writes and not planned.is_applied:
            waits = blocking_dependency(app, planned.plan.revision, self._find)
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
