"""Compare one Application with Git once, with the controller's own code and without watches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gitsync.cli.adapters import CallerCluster, DirectLiveCache, FolderSource, InProcessRenderer
from gitsync.cli.applications import all_applications, connect, one_application
from gitsync.cli.change import PreviewedChange
from gitsync.cli.options import ClusterTarget, GitTarget, close_at_end, load_settings
from gitsync.cli.output import Exit
from gitsync.cluster.kubernetes import collection_path
from gitsync.errors import GitsyncError, InvalidInput, Refused, Rejected
from gitsync.gate.policy_files import PolicySet
from gitsync.kube.parts import all_parts
from gitsync.objects.application import Application, SourceGroup, parse_application
from gitsync.objects.change import ABSENT, DRIFT, Change, Decision, Plan, Review, Verdict
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.record import AuditHead, Commit
from gitsync.objects.ref import ObjectRef
from gitsync.objects.tree import ReplacedFolder, Tree
from gitsync.objects.urls import matches_url
from gitsync.plan.generated import is_configuration
from gitsync.plan.mask import mask_change
from gitsync.plan.tracking import owner_of
from gitsync.ports import Source
from gitsync.preview.compare import Preview, RootChange
from gitsync.preview.effects import effects_of
from gitsync.preview.roots import Root
from gitsync.render.provenance.trace import Traces
from gitsync.runtime.clock import SystemClock
from gitsync.secrets import AGE_SUFFIX, DecryptionKeys
from gitsync.services.policies import read_policies
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.local import open_path
from gitsync.source.proposals import LocalRepository
from gitsync.source.signatures import verify_revision
from gitsync.source.validation import clean_path
from gitsync.state.declarations import Declarations, Reach
from gitsync.state.tracked import TrackedObjects
from gitsync.sync.additions import Additions
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.decision import AdviceGate, SyncGate, blocking_dependency
from gitsync.sync.desired import Decryptor, DesiredState
from gitsync.sync.evaluate import ClusterView, SyncEvaluator
from gitsync.sync.input import ReconcileInput, Target
from gitsync.sync.observe import Observation, created_namespace
from gitsync.sync.planner import Planned, Planner, PlanRules
from gitsync.sync.policies import Policies
from gitsync.sync.polling.fetch import Fetcher, SignatureCheck
from gitsync.sync.remote_bases import RemoteBases
from gitsync.sync.running import readers_of
from gitsync.sync.status.report import Report

_DRY_RUNS = 8
"""Maximum number of parallel dry runs."""


@dataclass(frozen=True, slots=True)
class ApplicationComparison:
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
    additions: Additions = field(default_factory=dict)
    """What users added beside what Git declares."""

    @property
    def exit_code(self) -> Exit:
        """The exit code of a comparison: without steps, success only where every object could be compared."""
        if self.plan.outstanding:
            return Exit.DIFFERENT
        return Exit.UNAVAILABLE if self.plan.unobserved else Exit.OK


def _policies(target: GitTarget) -> PolicySet:
    """Return the given policies; what those of the controller allow is not known here, and not guessed."""
    return read_policies(target.policies) if target.policies else PolicySet()


class Evaluator:
    """Compare Git with the cluster, by a client of the cluster and the mirrors in the data folder."""

    def __init__(self, target: GitTarget, age_key: Path | None = None) -> None:
        self.client = connect(target.cluster)
        self.cluster = CallerCluster(self.client)
        self.live = DirectLiveCache(self.cluster)
        mirrors = target.data / "mirrors"
        settings = load_settings()
        self.source = settings.repositories(mirrors, file_urls=target.allows_file_urls)
        self.hosts = ApiHosts(self.source.transport)
        self.policies = Policies(self.cluster, self.live, self.source, _policies(target))
        self.secrets = ApplicationSecrets(self.cluster, self.live, self.policies.all_of)
        self.renderer = RemoteBases(
            InProcessRenderer(),
            self.source,
            self.secrets.credentials,
            self.policies.all_of,
            self.secrets.chart_inputs,
        )
        self._target = target
        self._age_key = age_key
        self._key_services = settings.key_services()
        self._clock = SystemClock()
        # a git process that reads objects would stay behind
        close_at_end(self.close)

    def close(self) -> None:
        """End the processes that read Git, and the connections to the cluster."""
        self.source.close()
        self.client.close()

    def evaluate(self, local: Path | None = None) -> ApplicationComparison:
        """
        Compare what Git, or a local folder, declares now with the cluster; nothing is written.

        Raise the error that the controller reports for a commit that it cannot use. Objects that only the API server
        can compare are sent to it as dry runs.
        """
        manifest = one_application(self.client, self._target.namespace, self._target.name)
        reconcile = self._input(manifest)
        cache = ReconcileCache()
        if reconcile.app.is_deleted:
            return self._evaluate_deletion(manifest, reconcile, cache)
        if local is not None and isinstance(reconcile.app.source, SourceGroup):
            return self._evaluate_clone(manifest, reconcile, reconcile.app.source, local)
        if local is not None:
            place = open_path(str(local))
            return self.evaluate_tree(manifest, place.tree, place.path)
        reconcile, commit, notes = self._fetched(reconcile, cache)
        comparison = self._evaluate(manifest, reconcile, self.source, commit, cache)
        rollback = reconcile.state.rollback
        if rollback is not None and rollback.bad_commit == commit.id:
            notes += (rollback.message,)
        return replace(comparison, notes=(*notes, *comparison.notes))

    def evaluate_tree(self, manifest: Manifest, tree: Tree, path: str) -> ApplicationComparison:
        """Compare what a folder of a tree declares, as if it were the Application's own, with the cluster."""
        reconcile = self._input(manifest)
        app = replace(reconcile.app, source=reconcile.app.source.model_copy(update={"path": path or "."}))
        source = FolderSource(self._target.data / "mirrors", tree)
        return self._evaluate(manifest, replace(reconcile, app=app), source, Commit(""), ReconcileCache())

    def _evaluate_clone(
        self, manifest: Manifest, reconcile: ReconcileInput, group: SourceGroup, local: Path
    ) -> ApplicationComparison:
        """Compare what several sources declare with the cluster, with the files of a clone of one of them."""
        place = open_path(str(local))
        urls = LocalRepository(local).urls()
        names = [member.name for member in group.members if any(matches_url(url, member.repo_url) for url in urls)]
        if len(names) != 1:
            what = "several sources" if names else "none of the sources"
            raise InvalidInput(
                f"the folder is in a clone of {what} ({', '.join(names or (member.name for member in group.members))})",
                location="--local",
                hint="name a folder in a clone of one of them",
            )
        reconcile, commit, notes = self._fetched(reconcile, ReconcileCache())
        joined = self.source.snapshot(group, self.secrets.credentials(reconcile.app), commit.id)
        tree = ReplacedFolder(joined.tree, names[0], place.tree)
        source = FolderSource(self._target.data / "mirrors", tree)
        comparison = self._evaluate(manifest, reconcile, source, Commit(""), ReconcileCache())
        return replace(comparison, notes=(*notes, *comparison.notes))

    def evaluate_commit(self, manifest: Manifest, commit: str) -> ApplicationComparison:
        """Compare what a commit declares with the cluster."""
        return self._evaluate(manifest, self._input(manifest), self.source, Commit(commit), ReconcileCache())

    def _input(self, manifest: Manifest) -> ReconcileInput:
        return ReconcileInput.parse(manifest, self._clock.now())

    def _fetcher(self, source: Source) -> Fetcher:
        signatures = SignatureCheck(verify_revision, self.policies.signers)
        return Fetcher(source, self.secrets, signatures, self._clock)

    def _desired(self, source: Source) -> DesiredState:
        return DesiredState(
            self._fetcher(source), self.renderer, self.cluster, Decryptor(self._keys, self._key_services)
        )

    def _keys(self, app: Application) -> DecryptionKeys:
        """Return the age keys of the given file, else of the Application's Secret."""
        # without a Secret in its spec the controller decrypts nothing, so neither does a comparison
        if self._age_key is None or not app.source.decryption_secret:
            return self.secrets.decryption_keys(app)
        try:
            return DecryptionKeys(({AGE_SUFFIX: self._age_key.read_text(encoding="utf-8")},))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("cannot read the age key file", location="--age-key") from error

    def _fetched(
        self, reconcile: ReconcileInput, cache: ReconcileCache
    ) -> tuple[ReconcileInput, Commit, tuple[str, ...]]:
        """Fetch the revision that the Application follows; return it with notes about the fetch."""
        fetcher = self._fetcher(self.source)
        polled = fetcher.poll(reconcile, cache.git)
        try:
            commit = fetcher.checkout(reconcile, cache.git)
        except Refused as refusal:  # of a rewritten revision, which a requested sync plans
            reconcile = replace(reconcile, requested_by="a user")
            return reconcile, fetcher.checkout(reconcile, cache.git), (str(refusal),)
        return reconcile, commit, (f"compared with the last known commit: {polled.error}",) if polled.error else ()

    def _evaluate(
        self, manifest: Manifest, reconcile: ReconcileInput, source: Source, commit: Commit, cache: ReconcileCache
    ) -> ApplicationComparison:
        report = Report(manifest, reconcile)
        target = self._desired(source).load_for(report, cache, commit).target(commit)
        planned, notes = self._plan(report, cache, target)
        planned, verdict = self._gate().judge(planned, cache)
        return self._comparison(manifest, planned, verdict, source, notes)

    def _evaluate_deletion(
        self, manifest: Manifest, reconcile: ReconcileInput, cache: ReconcileCache
    ) -> ApplicationComparison:
        """Compare an Application that is being deleted with nothing: Git no longer says what it has in the cluster."""
        commit = Commit(reconcile.state.applied)
        app = reconcile.app
        if not app.sync.deletes_with_application:
            member = "sync.preserveResourcesOnDeletion is on" if app.sync.prune else "sync.prune is off"
            inputs = replace(reconcile, state=replace(reconcile.state, inventory=Inventory()))
            notes: tuple[str, ...] = (f"being deleted: its objects stay, since {member}",)
        else:
            inputs = reconcile
            notes = ("being deleted: what it applied is deleted with it",)
        planned, more = self._plan(Report(manifest, inputs), cache, Target(commit))
        decision = self._gate().decide_deletion(planned, cache.execution)
        verdict = decision.verdict or Verdict(Decision.ALLOWED)
        return self._comparison(manifest, planned, verdict, self.source, (*notes, *more))

    def _gate(self) -> SyncGate:
        return SyncGate(_NoReviews(), self._clock, AdviceGate(None, self.secrets), self.policies)

    def _plan(self, report: Report, cache: ReconcileCache, target: Target) -> tuple[Planned, tuple[str, ...]]:
        """Return the plan for a target, with notes about what could not be read for it."""
        declarations = Declarations()
        view = ClusterView(self.cluster, self.live, TrackedObjects(), declarations, self.policies.unreadable)
        with ThreadPoolExecutor(_DRY_RUNS) as pool:
            planner = Planner(self.cluster, declarations, pool, PlanRules(policy_of=self.policies.of))
            evaluator = SyncEvaluator(view, planner)
            observation = evaluator.observe(report, cache, target)
            readers, notes = self._readers(observation)
            notes += self._load_claims(report.inputs, observation, declarations)
            planned = evaluator.plan(report, cache, target, replace(observation, readers=readers))
        return planned, notes

    def _readers(self, observation: Observation) -> tuple[dict[ObjectRef, str], tuple[str, ...]]:
        """Return what still reads the ConfigMaps and Secrets that Git replaced, with a note where that is unknown."""
        replaced = [ref for ref in observation.replaced if is_configuration(ref)]
        if not replaced:
            return {}, ()
        parts = defaultdict[str, list[Manifest]](list)
        try:
            for part in self._parts(observation):
                for owner in metadata_of(part).get("ownerReferences") or ():
                    parts[str(owner.get("uid"))].append(part)
        except Rejected as error:
            return {}, (f"what still reads {replaced[0]} is not known: {error}",)
        return readers_of(replaced, observation.live, lambda uid: parts.get(uid, ())), ()

    def _parts(self, observation: Observation) -> Iterator[Manifest]:
        """Yield what controllers made in the namespaces of the live objects, by one list for each kind."""
        for part in all_parts({ref.of for ref in observation.live}):
            resource = self.cluster.resource(*part)
            for namespace in {ref.namespace for ref in observation.live if ref.namespace}:
                if resource is not None:
                    yield from self.client.get(collection_path(resource, namespace))["items"]

    def _comparison(
        self, manifest: Manifest, planned: Planned, verdict: Verdict, source: Source, notes: tuple[str, ...]
    ) -> ApplicationComparison:
        return ApplicationComparison(
            planned.app,
            manifest,
            planned.target.commit.id,
            # masked before any command can print it
            replace(
                planned.plan,
                changes=tuple(map(mask_change, planned.plan.changes)),
                repairs=tuple(map(mask_change, planned.plan.repairs)),
            ),
            verdict,
            self._traced(planned, source),
            (*notes, *unobserved_notes(planned.plan), *self._blocking_notes(planned)),
            planned.additions,
        )

    def _load_claims(
        self, reconcile: ReconcileInput, observation: Observation, declarations: Declarations
    ) -> tuple[str, ...]:
        """
        Load the objects that other Applications declare in Git into the state, where this one's plan depends on them.

        It does for a declared object with the label of another Application, and for an object that would be pruned.
        """
        own = reconcile.app.key
        owners = {owner_of(observation.live[ref]) for ref in observation.desired if ref in observation.live} - {"", own}
        leaves = any(ref in observation.live and ref not in observation.desired for ref in reconcile.state.inventory)
        if not owners and not leaves:
            return ()
        try:
            others = all_applications(self.client)
        except Rejected:
            return ("cannot list other Applications: conflicting ownership is not checked",)
        for manifest in others:
            key = f"{metadata_of(manifest)['namespace']}/{metadata_of(manifest)['name']}"
            if key != own and (leaves or key in owners):
                declarations.set_declared(key, self._declared(manifest))
            # the oldest one has an object that does not exist yet
            declarations.register(key, Reach.of(manifest))
        return ()

    def _declared(self, manifest: Manifest) -> frozenset[ObjectRef]:
        """Return the objects that another Application declares in Git; its inventory where Git cannot be read."""
        try:
            reconcile = self._input(manifest)
            cache = ReconcileCache()
            fetcher = self._fetcher(self.source)
            fetcher.poll(reconcile, cache.git)
            desired = self._desired(self.source).load(reconcile, cache, fetcher.checkout(reconcile, cache.git)).objects
        except GitsyncError:
            # what it held last: an Application that cannot be read must not lose its objects to this one
            return frozenset(Inventory.from_status(at(manifest, "status", default={})))
        created = created_namespace(reconcile.app)
        # a Namespace that is only created belongs to none of the Applications that may create it
        return frozenset(ref for ref in desired if created.get(ref) != desired[ref])

    def _traced(self, planned: Planned, source: Source) -> Traces:
        app = planned.app
        wanted = {change.ref: fields for change in planned.plan.outstanding if (fields := _declared_fields(change))}
        if not wanted:
            return {}
        snapshot = source.snapshot(app.source, self.secrets.credentials(app), planned.target.commit.id)
        return self.renderer.trace(app, snapshot, wanted)

    def _blocking_notes(self, planned: Planned) -> Iterable[str]:
        """Yield why the controller does not sync by itself, though the gate allows it."""
        app = planned.app
        if app.is_deleted:
            return
        if app.suspend:
            yield f"suspended: nothing is written until: gitsync resume {app.name} --reason …"
        if not app.sync.automated:
            yield f"automated sync is off: nothing is written until: gitsync sync {app.name}"
        if planned.plan.writes and not planned.is_applied:
            waits = blocking_dependency(app, planned.plan.revision, self._find)
            if waits:
                yield waits

    def _find(self, key: str) -> Manifest | None:
        namespace, _, name = key.partition("/")
        try:
            return one_application(self.client, namespace, name)
        # blocking_dependency() reports an Application that does not exist
        except InvalidInput:
            return None


class _NoReviews:
    """Reviews of a comparison: none, since it shows what needs a review."""

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review | None:
        """Return None."""
        return None


def unobserved_notes(plan: Plan) -> list[str]:
    """Return which objects are not compared, and why: the API server of their group does not answer."""
    refs = defaultdict[str, list[str]](list)
    for ref, why in plan.unobserved.items():
        refs[why].append(str(ref))
    return [f"not compared: {', '.join(names)}: {why}" for why, names in refs.items()]


def _declared_fields(change: Change) -> list[str]:
    """Return the fields of a step that Git declares with another value; the object itself where it is new."""
    fields = [item.path for item in change.differences if item.kind in DRIFT and item.desired is not ABSENT]
    return fields or ([""] if change.desired is not None and change.live is None else [])


# a previewed change: what a sync of the merge would write, drift included


def known_roots(cluster: ClusterTarget, change: PreviewedChange) -> tuple[Root, ...]:
    """Return the folders of the repository that Applications of the cluster deploy, declared in it or not."""
    applications = (parse_application(manifest) for manifest in all_applications(connect(cluster.cluster)))
    return tuple(Root(clean_path(app.source.path), app) for app in applications if change.is_own(app.source.repo_url))


def live_changes(
    cluster: ClusterTarget, change: PreviewedChange, comparison: Preview, policies: Path | None
) -> Iterator[RootChange]:
    """Yield what a sync of the merge would write for each Application whose folder changes, drift included."""
    roots = {root for item in comparison.changes for root in item.roots if root.application}
    for root in sorted(roots, key=lambda item: item.name):
        app = root.application
        if app is None:
            continue
        target = GitTarget(
            kubeconfig=cluster.kubeconfig, data=cluster.data, name=app.name, namespace=app.namespace, policies=policies
        )
        try:
            evaluator = Evaluator(target)
            manifest = one_application(evaluator.client, app.namespace, app.name)
            evaluated = evaluator.evaluate_tree(manifest, change.result, root.path)
        except GitsyncError as error:  # the others are compared all the same
            yield RootChange((root,), problem=str(error))
            continue
        steps = tuple(evaluated.plan.outstanding)
        is_rejected = evaluated.verdict.decision is Decision.REFUSED
        violations = evaluated.verdict.reasons if is_rejected else ()
        yield RootChange((root,), steps, effects_of(steps, {}), violations, evaluated.traces)
