"""
Reconcile one ApplicationSet: fetch what its Git generators read, expand, compare, write, report.

Git is queried outside the workers, as for Applications, with the credentials and policies of the set. Each write of an
Application of the set has an intent and an outcome in the audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gitsync.applicationsets.changes import Changes, changes
from gitsync.applicationsets.expand import Expansion, expand
from gitsync.applicationsets.generators import TreeOf, git_generators, paths_read
from gitsync.applicationsets.model import ApplicationSet, GitGenerator, parse_application_set
from gitsync.applicationsets.status import Pass, failed_status, set_status
from gitsync.apply.change import ApplyRequest, StepResult
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import AlreadyExists, ClusterUnavailable, Conflict, GitsyncError, Refused, TransientError
from gitsync.gate.policy import Policy
from gitsync.kube.times import timestamp
from gitsync.objects.application import Application, CredentialsRef, Destination, GitSource, SyncPolicy, Verification
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION, APPLICATION_SET, SETS_MANAGER, VERSION
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.tree import Tree
from gitsync.objects.urls import matches_url
from gitsync.operator.kinds import own_resource
from gitsync.plan.ownership import as_applied
from gitsync.plan.tracking import controller_of
from gitsync.ports import Ports
from gitsync.sync.cache import GitCache
from gitsync.sync.input import ReconcileInput, SyncState
from gitsync.sync.polling.fetch import Fetcher, Polled
from gitsync.sync.polling.git_watcher import GitWatcher
from gitsync.sync.status.writer import StatusWriter


@dataclass(slots=True)
class SourcesCache:
    """What is kept of the sources of one set between reconciles, by their index."""

    git: dict[int, GitCache] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GeneratorFiles:
    """
    The files of each Git generator, and the commits that they are of.

    ``errors`` has why the last poll of a repository failed, None for one that was polled: the files are then those of
    its last known commit. ``requeue_after`` is the number of seconds until the next poll of a branch that the watcher
    does not poll, such as after a failure; None where it polls all.
    """

    tree_of: TreeOf
    commits: tuple[str, ...]
    errors: Mapping[str, GitsyncError | None]
    requeue_after: float | None = None


_Source = tuple[str, str, CredentialsRef | None, Verification]
"""What Git generators share a query of."""


class SetSources:
    """
    Fetch what Git generators read.

    A reconcile never waits for Git: what is not known yet is asked of the watcher, whose answer enqueues the set. A
    commit that changes none of the files and folders read enqueues nothing.
    """

    def __init__(
        self, fetcher: Fetcher, watcher: GitWatcher, policies_of: Callable[[Application], tuple[Policy, ...]]
    ) -> None:
        self._fetcher = fetcher
        self._watcher = watcher
        self._policies_of = policies_of

    def files(self, application_set: ApplicationSet, cache: SourcesCache, now: datetime) -> GeneratorFiles | None:
        """Return the files of all Git generators, None while a query is due that will enqueue the set."""
        groups = _by_source(git_generators(application_set.spec))
        # First: what an index meant before is another generator now.
        self._leave_others(application_set, cache, len(groups))
        inputs = [
            ReconcileInput(_source_as_application(application_set, index, group), now, SyncState())
            for index, group in enumerate(groups.values())
        ]
        # All before the first query: a repository that is not allowed must not be asked, not even beside allowed ones.
        for request in inputs:
            self._check(request.app)
        polled = [self._poll(request, cache.git.setdefault(index, GitCache())) for index, request in enumerate(inputs)]
        if any(answer.is_due for answer in polled):
            return None
        reads = [frozenset().union(*map(paths_read, group)) for group in groups.values()]
        trees = {
            source: self._checkout(inputs[index], cache.git[index], polled[index], reads[index])
            for index, source in enumerate(groups)
        }
        unwatched = [answer.requeue_after for answer in polled if not self._watcher.is_watched(answer.query.app.key)]
        return GeneratorFiles(
            lambda git: trees[_source(git)](),
            tuple(answer.commit for answer in polled),
            _errors(polled),
            min(unwatched, default=None),
        )

    def poll_now(self, key: str, cache: SourcesCache, now: float) -> bool:
        """
        Poll the branches of a set now, by its key: a push was received.

        Return whether some are not watched, such as after a failed poll: these are polled by the next reconcile.
        """
        # A copy: the reconcile of the set may change the caches while a webhook reads them.
        by_key = {_source_key(key, index): git for index, git in tuple(cache.git.items())}
        unwatched = self._watcher.poll_now(by_key)
        for watched in unwatched:
            by_key[watched].notified_at = now
        return bool(unwatched)

    def leave(self, key: str, cache: SourcesCache) -> None:
        """Stop watching the branches of a set, by its key."""
        for index in cache.git:
            self._watcher.leave(_source_key(key, index))
        cache.git.clear()

    def _leave_others(self, application_set: ApplicationSet, cache: SourcesCache, count: int) -> None:
        for index in [index for index in cache.git if index >= count]:
            self._watcher.leave(_source_key(str(OwnerKey.of_ref(application_set.ref)), index))
            del cache.git[index]

    def _check(self, app: Application) -> None:
        """Raise Refused where a policy does not allow the repository of a generator."""
        for policy in self._policies_of(app):
            url = app.source.repo_url
            if policy.repositories and not any(matches_url(pattern, url) for pattern in policy.repositories):
                raise Refused(f"repoURL {url} is not allowed by policy {policy.name}", location="spec.generators")

    def _poll(self, inputs: ReconcileInput, cache: GitCache) -> Polled:
        key = inputs.app.key
        polled_at = self._watcher.catch_up(inputs.app)
        # The poll of the branch is one of the set too, and need not be repeated.
        if polled_at is not None:
            cache.last_poll = polled_at
            cache.next_poll = polled_at + inputs.app.sync.interval
        polled = self._fetcher.poll(inputs, cache, waits=False)
        if polled.error is not None:
            # The error may be of the Secret, whose message does not name the repository.
            polled.error.object = polled.error.object or inputs.app.source.repo_url
        if polled.is_due:
            self._watcher.ask(key, polled.query)
        return polled

    def _checkout(
        self, inputs: ReconcileInput, cache: GitCache, polled: Polled, reads: frozenset[str]
    ) -> Callable[[], Tree]:
        """Return what reads the files of the polled commit, and have the branch watched from there."""
        app = inputs.app
        commit = self._fetcher.checkout(inputs, cache)
        # The files are read when the elements are computed, and only for another commit.
        cache.snapshot = None
        if polled.error is None and cache.notified_at is None:
            self._watcher.follow(app.key, polled.query, commit.id, reads)
        else:
            self._watcher.leave(app.key)

        def tree() -> Tree:
            files = self._fetcher.snapshot(app, cache, commit.id).tree
            cache.snapshot = None
            return files

        return tree


def _errors(polled: Iterable[Polled]) -> dict[str, GitsyncError | None]:
    """Return the error of each repository; of several branches, that of the first one that has one."""
    errors: dict[str, GitsyncError | None] = {}
    for answer in polled:
        url = answer.query.app.source.repo_url
        errors[url] = errors.get(url) or answer.error
    return errors


def poll_interval(application_set: ApplicationSet) -> float | None:
    """Return the shortest time between polls of the Git generators of a set, None where it has none."""
    return min((float(git.requeue_after_seconds) for git in git_generators(application_set.spec)), default=None)


def _by_source(generators: Iterable[GitGenerator]) -> dict[_Source, list[GitGenerator]]:
    # Generators of one repository and revision share the query, its cache and its poll.
    groups: dict[_Source, list[GitGenerator]] = {}
    for generator in generators:
        groups.setdefault(_source(generator), []).append(generator)
    return groups


def _source(git: GitGenerator) -> _Source:
    return git.repo_url, git.revision, git.credentials, git.verify


def _source_as_application(application_set: ApplicationSet, index: int, group: Sequence[GitGenerator]) -> Application:
    """Return Git generators as the source of an Application, for credentials, signatures and policies."""
    generator = group[0]
    folders = {path.rpartition("/")[0] for git in group for path in paths_read(git)}
    return Application(
        name=_source_key(str(OwnerKey.of_ref(application_set.ref)), index).partition("/")[2],
        namespace=application_set.ref.namespace,
        # Each source has its own cache, as an Application has.
        uid=f"{application_set.uid}/{index}",
        generation=application_set.generation,
        source=GitSource(
            repo_url=generator.repo_url,
            revision=generator.revision,
            path=folders.pop() if len(folders) == 1 and "" not in folders else ".",
            credentials=generator.credentials,
            verify=generator.verify,
        ),
        destination=Destination(namespace=application_set.ref.namespace),
        sync=SyncPolicy.model_construct(interval=float(min(git.requeue_after_seconds for git in group))),
        owner=application_set.owner,
    )


def set_of(key: str) -> OwnerKey | None:
    """Return the set of its key, or of the key by which one of its generators watches a branch; None for others."""
    owner = OwnerKey.parse(key)
    if owner.of != APPLICATION_SET:
        return None
    return owner._replace(name=owner.name.partition(":")[0])


def _source_key(key: str, index: int) -> str:
    """Return the key by which a Git generator of a set watches a branch."""
    return f"{key}:{index}"


_RETRY = 15.0
"""Seconds until writes are repeated that failed."""
_CHANGED_RETRY = 0.5
"""Seconds until a write is planned again whose object has changed since it was observed, as each status write does."""


class SetWriter:
    """Carry out the changes of sets; a key's writes are made by one worker at a time."""

    def __init__(self, applier: Applier, writes: WritesByOwner) -> None:
        self._applier = applier
        self._writes = writes

    def take_answered(self, application_set: ApplicationSet) -> list[StepResult]:
        """Return the results of writes that were answered since the last pass; their objects are in the cache."""
        return [write.result for write in self._writes.of(str(OwnerKey.of_ref(application_set.ref))).take()]

    def write(
        self, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]
    ) -> tuple[StepResult, ...]:
        """Return the results of the writes that were answered; the answers of others enqueue the set."""
        plan = _plan(str(OwnerKey.of_ref(application_set.ref)), application_set, changes, live)
        if not plan.writes:
            return ()
        request = ApplyRequest(
            _as_application(application_set),
            plan,
            Commit(
                f"generation-{application_set.generation}",
                message=f"{application_set.ref} at generation {application_set.generation}",
            ),
            uuid.uuid4().hex[:16],
            {change.ref: VERSION for change in plan.changes},
            lambda entries: None,
            lambda ref, manifest: HealthStatus(Health.HEALTHY),
            approver="annotation" if application_set.approved else "",
            # A create must not take over an Application that a user made a moment ago (decision 0040).
            creates_only=True,
        )
        return self._applier.execute(request).results

    def writing(self, application_set: ApplicationSet) -> frozenset[str]:
        """Return the names of the Applications whose writes are not answered yet."""
        return frozenset(ref.name for ref in self._writes.of(str(OwnerKey.of_ref(application_set.ref))).running)

    def resolve(self, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]) -> None:
        """Audit an outcome for unresolved writes."""
        key = str(OwnerKey.of_ref(application_set.ref))
        objects = {
            ref_of(application): application
            for application in live.values()
            if controller_of(application) == application_set.uid
        }
        self._writes.of(key).resolve(_plan(key, application_set, changes, live), objects)


def failures(results: Iterable[StepResult]) -> dict[str, str]:
    """Return why writes failed, by the name of the Application; the last write of each counts."""
    last = {result.change.ref.name: result for result in results}
    return {name: result.message for name, result in last.items() if result.outcome is Outcome.FAILED}


def retry_delay(results: Iterable[StepResult]) -> float | None:
    """Return the seconds until writes are repeated, None where none failed that may succeed then."""
    errors = [result.error for result in results if result.outcome is Outcome.FAILED]
    # Each write to a status changes the object, so that such a conflict is over soon.
    if any(isinstance(error, Conflict) and not isinstance(error, AlreadyExists) for error in errors):
        return _CHANGED_RETRY
    return _RETRY if any(isinstance(error, TransientError) for error in errors) else None


def _plan(key: str, application_set: ApplicationSet, changes: Changes, live: Mapping[str, Manifest]) -> Plan:
    def step(name: str, action: Action, desired: Manifest | None, reason: str) -> Change:
        ref = ObjectRef(APPLICATION.group, APPLICATION.kind, application_set.ref.namespace, name)
        present = live.get(name)
        owners = as_applied(present, SETS_MANAGER) if present and action is Action.UPDATE else None
        return Change(ref, action, reason=reason, desired=desired, live=present, managed_fields=owners)

    steps = (
        *(step(name, Action.CREATE, manifest, "a new element") for name, manifest in changes.creates.items()),
        *(
            step(name, Action.UPDATE, manifest, "differs from its element")
            for name, manifest in changes.updates.items()
        ),
        *(step(name, Action.PRUNE, None, "its element is gone") for name in changes.deletes),
    )
    return Plan(key, f"generation-{application_set.generation}", steps, "", Risk.SAFE)


def _as_application(application_set: ApplicationSet) -> Application:
    """Return the set as the applier sees it."""
    namespace, _, name = str(OwnerKey.of_ref(application_set.ref)).partition("/")
    return Application(
        name=name,
        namespace=namespace,
        uid=application_set.uid,
        generation=application_set.generation,
        source=GitSource.model_construct(repo_url=""),
        destination=Destination(namespace=namespace),
        field_manager=SETS_MANAGER,
        owns_by_reference=True,
    )


@dataclass(slots=True)
class SetCache:
    """What is kept of one set between reconciles; losing it only costs recomputation."""

    sources: SourcesCache = field(default_factory=SourcesCache)
    expanded_for: tuple[object, ...] = ()
    expansion: Expansion | None = None


class SetReconciler:
    """Reconcile ApplicationSets, level-based."""

    def __init__(self, ports: Ports, sources: SetSources, writer: SetWriter, statuses: StatusWriter) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._sources = sources
        self._writer = writer
        self._statuses = statuses

    def reconcile(self, manifest: Manifest, cache: SetCache) -> float | None:
        """Reconcile a set; return the seconds until the next reconcile, None where only an event can change it."""
        if metadata_of(manifest).get("deletionTimestamp"):
            return None  # the API server deletes the Applications, by their owner references
        ref = ref_of(manifest)
        previous = manifest.get("status") or {}
        generation = int(metadata_of(manifest).get("generation", 0))
        retry_after = None
        try:
            application_set = parse_application_set(manifest)
            retry_after = poll_interval(application_set)
            files = self._sources.files(application_set, cache.sources, self._clock.now())
            if files is None:
                return None  # the answer of Git enqueues the set
            expansion = _expanded(application_set, files, cache)
        except GitsyncError as error:
            self._statuses.write(manifest, failed_status(ref, generation, error, previous, self._stamp()))
            if isinstance(error, TransientError):
                raise
            return retry_after  # a revision that does not exist, or is not signed, is not watched
        return self._bring(manifest, application_set, expansion, files.errors) or files.requeue_after

    def poll_now(self, key: str, cache: SetCache) -> bool:
        """Poll the repositories of a set now: a push was received; return whether a reconcile has to do it."""
        return self._sources.poll_now(key, cache.sources, self._clock.monotonic())

    def leave(self, key: str, cache: SetCache) -> None:
        """Stop watching for a set that is gone, or that another replica reconciles."""
        self._sources.leave(key, cache.sources)

    def _bring(
        self,
        manifest: Manifest,
        application_set: ApplicationSet,
        expansion: Expansion,
        sources: Mapping[str, GitsyncError | None],
    ) -> float | None:
        answered = self._writer.take_answered(
            application_set
        )  # first: what it wrote is in the cache, and is not written again
        live = self._applications(application_set)
        wanted = changes(application_set, expansion, live)
        self._writer.resolve(application_set, wanted, live)
        results = [*answered, *self._writer.write(application_set, wanted, live)]
        previous = manifest.get("status") or {}
        done = Pass(
            application_set, expansion, wanted, failures(results), self._writer.writing(application_set), sources
        )
        self._statuses.write(manifest, set_status(done, previous, self._stamp()))
        return retry_delay(results)

    def _applications(self, application_set: ApplicationSet) -> dict[str, Manifest]:
        """Return the live Applications of the namespace by name."""
        resource = own_resource(self._cluster, APPLICATION)
        if resource is None:
            raise ClusterUnavailable(
                "the cluster does not serve Application", object=str(OwnerKey.of_ref(application_set.ref))
            )
        applications = self._live.all(resource)
        return {
            str(metadata_of(application)["name"]): application
            for application in applications
            # The namespace of the set only: its Applications are beside it.
            if metadata_of(application).get("namespace") == application_set.ref.namespace
        }

    def _stamp(self) -> str:
        return timestamp(self._clock.now().timestamp())


def _expanded(application_set: ApplicationSet, files: GeneratorFiles, cache: SetCache) -> Expansion:
    """Return the Applications of a set, computed again only for another spec or commit."""
    # The owner is part of it: it is written into each Application.
    wanted = (application_set.uid, application_set.generation, application_set.owner, files.commits)
    if cache.expansion is None or cache.expanded_for != wanted:
        cache.expansion = expand(application_set, files.tree_of)
        cache.expanded_for = wanted
    return cache.expansion
