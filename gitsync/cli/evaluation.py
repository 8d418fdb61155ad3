"""What the controller would do with one Application, worked out once, by its own functions and by requests alone."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gitsync.cli.adapters import AsMe, Folder, Here, Reading
from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.options import Site
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
from gitsync.ports import Cluster, Credentials, Live, Source
from gitsync.render.provenance.trace import Traces
from gitsync.source.local import open_path
from gitsync.source.repositories import Repositories
from gitsync.source.validation import SAFE_SCHEMES
from gitsync.source.verify import verify_commit
from gitsync.sync.cache import Memory
from gitsync.sync.credentials import credentials_of, decryption_keys
from gitsync.sync.dependencies import waits_for
from gitsync.sync.desired import Desire
from gitsync.sync.fetch import Fetcher
from gitsync.sync.observe import confirmed, created_namespace, observe
from gitsync.sync.planner import Planner
from gitsync.sync.reconcile import Turn
from gitsync.sync.state_store import State
from gitsync.sync.validation import refuse_misfits, violations_of
from gitsync.wiring import SystemClock, read_policies

_DRY_RUNS = 8
"""Dry runs beside each other."""


@dataclass(frozen=True, slots=True)
class Look:
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


class Desk:
    """What commands work with: a client of the cluster, and the mirrors in the data folder."""

    def __init__(self, site: Site) -> None:
        self.client = connect(site.kubeconfig)
        self.cluster = AsMe(self.client)
        self.live = Reading(self.cluster)
        schemes = (*SAFE_SCHEMES, "file") if site.file_urls else SAFE_SCHEMES
        self.source = Repositories(site.data / "mirrors", schemes=schemes)
        self._site = site
        self._clock = SystemClock()

    def look(self, namespace: str, name: str, local: Path | None = None) -> Look:
        """
        Compare what Git, or a local folder, declares now with the cluster; nothing is written.

        Raise what the controller would say of a commit that it cannot use. Objects whose comparison only the API server
        can be sure of are asked by a dry run.
        """
        manifest = one_application(self.client, namespace, name)
        turn, memory = self._turn(manifest), Memory()
        if local is not None:
            place = open_path(str(local))
            turn.app = replace(turn.app, source=replace(turn.app.source, path=place.path or "."))
            return self._judged(turn, memory, Folder(self._site.data / "mirrors", place.tree), Commit(""), ())
        notes = self._fetched(turn, memory)
        assert turn.commit is not None
        return self._judged(turn, memory, self.source, turn.commit, notes)

    def look_at(self, manifest: Manifest, commit: str) -> Look:
        """Compare what a commit declares with the cluster."""
        turn, memory = self._turn(manifest), Memory()
        return self._judged(turn, memory, self.source, Commit(commit), ())

    def credentials(self, app: Application) -> Credentials:
        """Return how to sign in at the Git server of an Application."""
        return credentials_of(app, self.cluster, self.live)

    def _turn(self, manifest: Manifest) -> Turn:
        turn = Turn.of(manifest, self._clock.now())
        turn.app = parse_application(manifest)
        return turn

    def _fetcher(self, source: Source) -> Fetcher:
        return Fetcher(source, verify_commit, self.cluster, self.live, self._clock)

    def _desire(self, source: Source) -> Desire:
        return Desire(source, Here(), self.cluster, self.live, self._fetcher(source), self._keys)

    def _keys(self, app: Application, cluster: Cluster, live: Live) -> tuple[str, ...]:
        """Return the keys of the Application's Secret, or of a file where one is given in its place."""
        if self._site.age_key is None or not app.source.decryption_keys:
            return decryption_keys(app, cluster, live)
        try:
            return (self._site.age_key.read_text(encoding="utf-8"),)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("is no file of age keys that can be read", where="--age-key") from error

    def _fetched(self, turn: Turn, memory: Memory) -> tuple[str, ...]:
        """Fetch what the Application follows; return what there is to say of it."""
        fetcher = self._fetcher(self.source)
        try:
            fetcher.fetch(turn, memory)
        except Refused as refusal:  # of a rewritten branch, which a sync takes that a person asks for
            turn.requested_by = "a person"
            fetcher.fetch(turn, memory)
            return (str(refusal),)
        return (f"compared with the last known commit: {turn.source_error}",) if turn.source_error else ()

    def _judged(self, turn: Turn, memory: Memory, source: Source, commit: Commit, notes: tuple[str, ...]) -> Look:
        turn.goal = commit
        desire, state = self._desire(source), State(self.cluster, self.live)
        desired = desire.of(turn, memory, commit)
        seen = confirmed(observe(desired, turn.inventory, self.cluster, self.live), turn.inventory, self.cluster)
        turn.observation = seen
        refuse_misfits(seen, partial(desire.place, turn, memory))
        notes += self._claimed(turn, state)
        with ThreadPoolExecutor(_DRY_RUNS) as pool:
            Planner(self.cluster, state, pool).plan(turn, memory)
        assert turn.plan is not None
        policies, rules = read_policies(self._site.policies)
        verdict = decide(
            turn.plan,
            turn.app,
            policy_for(policies, turn.app),
            None,
            turn.now,
            manual=turn.is_requested,
            violations=violations_of(turn.app, turn.plan, policies, rules),
        )
        return Look(
            turn.app,
            turn.manifest,
            commit.id,
            replace(turn.plan, changes=tuple(map(mask_change, turn.plan.changes))),
            verdict,
            self._traced(turn, source, commit),
            (*notes, *self._waits(turn)),
        )

    def _claimed(self, turn: Turn, state: State) -> tuple[str, ...]:
        """
        Tell the state what other Applications declare in Git, where that matters for this one's plan.

        It matters for a declared object that bears another's marks, and for any object that would be deleted.
        """
        seen = turn.observation
        assert seen is not None
        owners = {owner_of(seen.live[ref]) for ref in seen.desired if ref in seen.live} - {"", turn.app.key}
        leaves = any(ref in seen.live and ref not in seen.desired for ref in turn.inventory)
        if not owners and not leaves:
            return ()
        try:
            others = all_applications(self.client)
        except Rejected:
            return ("other Applications cannot be read, so nobody knows whether one of them declares the same object",)
        for manifest in others:
            key = f"{metadata_of(manifest)['namespace']}/{metadata_of(manifest)['name']}"
            if key != turn.app.key and (leaves or key in owners):
                state.declare(key, self._declared(manifest))
        return ()

    def _declared(self, manifest: Manifest) -> frozenset[ObjectRef]:
        """Return what another Application declares in Git now; where that cannot be told, what it holds."""
        try:
            turn, memory = self._turn(manifest), Memory()
            commit = self._fetcher(self.source).fetch(turn, memory)
            desired = self._desire(self.source).of(turn, memory, commit)
        except GitsyncError:
            return frozenset(Inventory.from_status(at(manifest, "status", default={})))
        created = created_namespace(turn.app)
        return frozenset(ref for ref in desired if created.get(ref) != desired[ref])

    def _traced(self, turn: Turn, source: Source, commit: Commit) -> Traces:
        assert turn.plan is not None
        wanted = {change.ref: fields for change in turn.plan.writes if (fields := _declared_fields(change))}
        if not wanted:
            return {}
        snapshot = source.snapshot(turn.app.source, self.credentials(turn.app), commit.id)
        return Here().trace(snapshot, turn.app.source.path, turn.app.source.renderer, wanted)

    def _waits(self, turn: Turn) -> Iterable[str]:
        """Yield why the controller does nothing of itself, though nothing forbids it."""
        app, pin = turn.app, turn.pin
        if app.suspend:
            yield f"suspended: nothing is written until somebody resumes it: gitsync resume {app.name}"
        if turn.commit is not None and pin is not None and pin.instead == turn.commit.id:
            yield pin.message
        if not app.sync.automated:
            yield f"automation is off: it waits until somebody asks: gitsync sync {app.name}"
        if turn.plan is not None and turn.plan.writes and not turn.is_applied:
            waits = waits_for(app, turn.plan.revision, self._find)
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
