"""The controller of ApplicationSets: which ones to reconcile, and when."""

from __future__ import annotations

from collections.abc import Callable

from gitsync.controllers.base import DEBOUNCE, BaseController, Workers
from gitsync.controllers.push_forwarding import SetPushes, one_set_of_each
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION, APPLICATION_SET, GIT_PUSHED
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator.application_sets import SetCache, SetReconciler, set_of
from gitsync.plan.risk.applications import git_generators
from gitsync.plan.tracking import controller_of
from gitsync.runtime.workqueue import FairShare, WorkQueue

_SECRET = GroupKind("", "Secret")
_UNRESOLVED = ObjectRef(APPLICATION_SET.group, "", "", "")
"""The key that is not of a set, see ``BaseController``."""


class ApplicationSetController(BaseController[ObjectRef]):
    """
    Reconcile ApplicationSets, level-based: a key is the ref of one.

    One is reconciled when it changes, when the spec or marks of one of its Applications change, when a Secret changes
    that its generators name, and when a commit changes a file or folder that they read. The status of an Application
    changes nothing. Pushes for sets of another replica are forwarded by annotations.
    """

    def __init__(self, reconciler: SetReconciler, workers: Workers) -> None:
        # a namespace with many sets must not delay those of another
        queue = WorkQueue(fair_share=FairShare[ObjectRef].of_all(workers.count, lambda key: key.namespace))
        super().__init__((APPLICATION_SET,), _UNRESOLVED, queue, workers)
        self._reconciler = reconciler
        self._caches: dict[ObjectRef, SetCache] = {}
        self._pushes = SetPushes(workers.ports.cluster, workers.ports.clock)

    def _reconcile(self, key: ObjectRef) -> float | None:
        owner = str(OwnerKey.of_ref(key))
        cache = self._caches.setdefault(key, SetCache())
        with self._share.claim(owner) as is_ours:
            if is_ours:
                if self._pushes.take(key):  # it became ours meanwhile
                    self._reconciler.poll_now(owner, cache)
                return self._reconcile_ours(key, cache)
        # not ours: the branches that it watched are the other replica's now
        self._reconciler.leave(owner, self._caches.pop(key))
        self._writes.forget(owner)
        if self._pushes.take(key) and self._get(OwnerKey.of_ref(key)) is not None:
            # forwarded: the push arrived here, and its replica has to poll
            self._pushes.send(key)
        return None

    def _reconcile_ours(self, key: ObjectRef, cache: SetCache) -> float | None:
        owner = OwnerKey.of_ref(key)
        manifest = self._get(owner)
        if manifest is not None:
            return self._reconciler.reconcile(manifest, cache)
        self._reconciler.leave(str(owner), cache)
        self._caches.pop(key)
        self._pushes.forget(key)
        # writes to its Applications may be unanswered, and each needs an outcome in the audit
        return self._conclude_writes(str(owner))

    def _key_of(self, owner: OwnerKey) -> ObjectRef | None:
        return owner.ref if owner.of == APPLICATION_SET else None

    def on_object_change(self, old: Manifest | None, new: Manifest | None) -> None:
        """Enqueue the sets of a changed object."""
        manifest = new or old or {}
        ref = ref_of(manifest)
        if ref.of == APPLICATION_SET:
            self._on_set_change(ref, old, new)
        # not for a status of an Application, which changes often and which no generator reads
        elif ref.of == APPLICATION and _input(old) != _input(new):
            self._enqueue_related(manifest)
        elif ref.of == _SECRET:
            for set_ in self.sets():
                # in the namespace of the set only: generators name Secrets beside it
                if metadata_of(set_).get("namespace") == ref.namespace and ref.name in _secrets(set_):
                    # later: a rotation usually changes several Secrets at once
                    self._queue.add_after(ref_of(set_), DEBOUNCE)

    def _on_set_change(self, ref: ObjectRef, old: Manifest | None, new: Manifest | None) -> None:
        if _input(old) != _input(new):
            self._queue.add(ref)
        # the annotation of a push is not an input, or each push would reconcile every set
        elif old and new and annotations_of(old).get(GIT_PUSHED) != annotations_of(new).get(GIT_PUSHED):
            self._poll_now(ref)

    def enqueue_all(self) -> None:
        """Enqueue all: a watch failed or recovered, or this replica owns others now."""
        for set_ in self.sets():
            self._queue.add_after(ref_of(set_), DEBOUNCE)

    def enqueue(self, key: str) -> bool:
        """Enqueue the set of a key; return whether it is one of a set."""
        owner = set_of(key)
        if owner is not None:
            self._queue.add(owner.ref)
        return owner is not None

    def enqueue_answered(self, key: str) -> None:
        """Enqueue the set of which the API server has answered the last write."""
        self.enqueue(key)

    def cached(self) -> int:
        """Return how many sets have a cache."""
        return len(self._caches)

    def sets(self) -> tuple[Manifest, ...]:
        """Return all sets, as they were last seen; none before the start."""
        return self._all(APPLICATION_SET)

    def repositories(self) -> frozenset[str]:
        """Return the URLs of the repositories that generators name."""
        return frozenset(url for set_ in self.sets() for url in _of_git(set_, "repoURL"))

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """
        Poll the repositories with these URLs that generators read, now; return how many sets read one.

        Another replica is notified once for each combination of branches, whatever the number of its sets.
        """
        readers = [set_ for set_ in self.sets() if any(map(is_it, _of_git(set_, "repoURL")))]
        ours = {ref for set_ in readers if self._share.owns(str(OwnerKey.of_ref(ref := ref_of(set_))))}
        for ref in ours:
            self._poll_now(ref)
        others = (set_ for set_ in readers if ref_of(set_) not in ours)
        for ref in one_set_of_each(others, lambda ref: self._share.owner_of(str(OwnerKey.of_ref(ref)))):
            self._queue.add_after(ref, self._pushes.add(ref))
        return len(readers)

    def _poll_now(self, ref: ObjectRef) -> None:
        """Poll what a set of ours reads; one that was not reconciled yet polls by itself."""
        cache = self._caches.get(ref)
        if cache is not None and self._reconciler.poll_now(str(OwnerKey.of_ref(ref)), cache):
            self._queue.add(ref)

    def _enqueue_related(self, application: Manifest) -> None:
        """Enqueue the set of an Application, and those whose next Application may have its name."""
        owner = controller_of(application)
        for set_ in self.sets():
            is_near = metadata_of(set_).get("namespace") == metadata_of(application).get("namespace")
            if owner == uid_of(set_) or (is_near and not owner):
                self._queue.add_after(ref_of(set_), DEBOUNCE)


def _input(manifest: Manifest | None) -> tuple[object, ...]:
    if manifest is None:
        return ()
    meta = metadata_of(manifest)
    annotations = {name: value for name, value in annotations_of(manifest).items() if name != GIT_PUSHED}
    marks = (annotations, labels_of(manifest), meta.get("ownerReferences"))
    return (uid_of(manifest), meta.get("generation"), *marks, meta.get("deletionTimestamp"))


def _of_git(manifest: Manifest, *path: str) -> frozenset[str]:
    """Return the texts at a path of the Git generators of a set."""
    members = (at(generator, *path) for generator in git_generators(at(manifest, "spec", "generators")))
    return frozenset(text for text in members if isinstance(text, str))


def _secrets(manifest: Manifest) -> frozenset[str]:
    named = (_of_git(manifest, member, "secretRef", "name") for member in ("credentials", "verify"))
    return frozenset().union(*named)
