"""Reconcile one ApplicationSet: read Git, expand, compare, write, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsync.applicationsets.changes import changes
from gitsync.applicationsets.expand import Expansion, expand
from gitsync.applicationsets.model import ApplicationSet, parse_application_set
from gitsync.applicationsets.status import Pass, failed_status, set_status
from gitsync.errors import ClusterUnavailable, GitsyncError, TransientError
from gitsync.kube.times import timestamp
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.owner_key import OwnerKey
from gitsync.objects.ref import ref_of
from gitsync.operator.applicationsets.sources import GeneratorFiles, SetSources, SourcesCache, poll_interval
from gitsync.operator.applicationsets.writer import SetWriter, failures, retry_delay
from gitsync.operator.kinds import own_resource
from gitsync.ports import Ports
from gitsync.sync.status.writer import StatusWriter


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
