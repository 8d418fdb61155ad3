"""The files of Git generators: queried outside the workers, as for Applications, with their credentials and policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gitsync.applicationsets.generators import TreeOf, git_generators, paths_read
from gitsync.applicationsets.model import ApplicationSet, GitGenerator
from gitsync.errors import GitsyncError, Refused
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application, CredentialsRef, Destination, GitSource, SyncPolicy, Verification
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION_SET
from gitsync.objects.tree import Tree
from gitsync.objects.urls import matches_url
from gitsync.sync.cache import GitCache
from gitsync.sync.input import ReconcileInput, SyncState
from gitsync.sync.polling.fetch import Fetcher, Polled
from gitsync.sync.polling.git_watcher import GitWatcher


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
            ReconcileInput(_as_application(application_set, index, group), now, SyncState())
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


def _as_application(application_set: ApplicationSet, index: int, group: Sequence[GitGenerator]) -> Application:
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
