"""The Application controller: which Applications to reconcile, and when."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from gitsync.agents.keys import APPROVE
from gitsync.controllers.base import DEBOUNCE, BaseController, Workers, is_renewal
from gitsync.controllers.push_forwarding import one_of_each
from gitsync.errors import GitsyncError
from gitsync.kube.kinds import CRD, defined_kind
from gitsync.objects.application import source_urls
from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.holds import hold_manager
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import (
    API_VERSION,
    APPLICATION,
    GIT_CHANGED,
    GIT_PUSHED,
    HINT_MANAGER,
    PUSH_MANAGER,
    REPAIR_MANAGER,
    REQUEST_MANAGER,
    REQUESTED_OBJECTS,
    REQUESTED_REPAIR,
    REQUESTED_SYNC,
    SUSPEND_MANAGER,
)
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.phase import Phase
from gitsync.objects.record import Push
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.parts import Choice
from gitsync.plan.running import POD, Execution
from gitsync.runtime.work_costs import counted_for
from gitsync.runtime.workqueue import WorkQueue
from gitsync.state.declarations import Reach
from gitsync.state.state import EngineState
from gitsync.sync.input import RepairRequest
from gitsync.sync.pipeline import Pipeline
from gitsync.sync.polling.git_watcher import GitWatcher

_log = logging.getLogger(__name__)
_FORWARD_DELAY = 0.5
"""Minimum seconds between push notifications to another replica."""
_PUBLISHED_AFTER = 1.2
"""Seconds from the change of a definition until the API server has published its schema, and it is looked up again."""
_UNRESOLVED = ""
"""The key that is not of an Application, see ``BaseController``."""


class ApplicationController(BaseController[str]):
    """
    Reconcile Applications, level-based: a key says which one, never what happened.

    An Application is reconciled when its spec or a request changes, when an object it declares or holds (or a part
    of one, such as a Pod) changes, when its poll or retry is due, and when a watch fails or recovers. Which objects
    changed only saves work: what they leave in sync is not observed again. An Application of another replica is only
    shown; requests for it are forwarded by annotations.
    """

    def __init__(
        self, pipeline: Pipeline, watcher: GitWatcher, state: EngineState, queue: WorkQueue[str], workers: Workers
    ) -> None:
        super().__init__((APPLICATION,), _UNRESOLVED, queue, workers)
        self._pipeline = pipeline
        self._watcher = watcher
        self._state = state
        self._changed = ChangedObjects()
        self._repositories = RepositoryIndex()
        self._pending_notifications: dict[str, str] = {}
        """Applications of other replicas that have to be notified of a push, by which annotation."""
        self._notified_at: dict[str, float] = {}
        self._is_ours: dict[str, bool | None] = {}
        """Whether an Application was ours at its last reconcile, None while that is being decided."""

    def _on_first_list(self) -> None:
        applications = self._all(APPLICATION)
        for manifest in applications:
            # before the first reconcile: prunes of one Application wait for what the others declare
            self._state.declarations.register(_key(manifest), Reach.of(manifest))
            self._repositories.set(_key(manifest), source_urls(manifest))
        self._watcher.start(lambda key, is_urgent: self._queue.add(key, urgent=is_urgent))

    def stop(self) -> None:
        """Stop after running reconciles have ended."""
        self._watcher.stop()
        self.stop_workers()

    def stop_workers(self) -> None:
        """Stop reconciling after running reconciles have ended; Git queries are still answered."""
        self._controller.stop()

    def _reconcile(self, key: str) -> float | None:
        # first: what changes from now on is a new entry, and is not lost when this reconcile fails
        changed = self._changed.take(key)
        manifest = self._application(key)
        if manifest is None:
            return self._remove(key)
        # while it is None, enqueue_moved enqueues it again: the division may change during this reconcile
        self._is_ours[key] = None
        with self._share.claim(key) as is_ours:
            self._is_ours[key] = is_ours
            if is_ours:
                if self._pending_notifications.pop(key, ""):  # it became ours meanwhile
                    self._pipeline.poll_now(uid_of(manifest))
                # the queue knows whether anything beside objects changed since; then the changed objects are only a
                # part of the work
                return self._sync(key, manifest, changed if self._queue.is_partial(key) else None)
        requeue_after = self._pipeline.relay(manifest)
        annotation = self._pending_notifications.pop(key, "")
        if annotation:
            self._notified_at[key] = self._clock.monotonic()
            self._annotate(manifest, PUSH_MANAGER if annotation == GIT_PUSHED else HINT_MANAGER, annotation)
        return requeue_after

    def _remove(self, key: str) -> float | None:
        """Forget an Application that is gone, once each of its writes has an outcome in the audit."""
        self._watcher.leave(key)
        self._state.forget(key, self._clock.now())
        self._pipeline.forget_sources(key)
        self._is_ours.pop(key, None)
        self._notified_at.pop(key, None)
        with self._share.claim(key) as is_ours:
            # only one replica concludes: two would each append outcomes to the audit
            return self._conclude_writes(key) if is_ours else None

    def _key_of(self, owner: OwnerKey) -> str | None:
        return str(owner) if owner.of == APPLICATION else None

    def _sync(self, key: str, manifest: Manifest, changed: frozenset[ObjectRef] | None) -> float | None:
        """Sync the changed objects of an Application, or all of it where they are None."""
        previous = self._outcome(key)
        pipeline = self._pipeline
        try:
            # the count belongs to the thread: requests of this reconcile are attributed to its Application
            with counted_for(self._state.costs.requests_of(key), key.partition("/")[0]):
                result = pipeline.sync(manifest) if changed is None else pipeline.sync_changed(manifest, changed)
        finally:
            self._log_transition(key, previous)
        if result is None:
            return None
        self.poll_now(self._watcher.poll_now(result.peers))  # each of them has to report the commit
        return result.requeue_after

    def _outcome(self, key: str) -> dict[str, str]:
        """Return the fields of an Application's status that are logged when one of them changes."""
        view = self._state.views.application(key)
        if view is None:
            return {}
        status = view.status
        fields = {name: status.get(name, "Unknown") for name in ("phase", "sync", "health")}
        reason = find_condition(status, READY).get("message", "")
        return {**fields, "revision": (status.get("revision") or {}).get("fetched", ""), "reason": reason}

    def _log_transition(self, key: str, previous: dict[str, str]) -> None:
        """Log phase, sync, health and reason of an Application when one of them has changed."""
        outcome = self._outcome(key)
        if outcome and outcome != previous:
            level = logging.WARNING if outcome["phase"] == Phase.FAILED else logging.INFO
            _log.log(level, "status changed", extra={"application": key, **outcome})

    def on_object_change(self, old: Manifest | None, new: Manifest | None) -> None:
        """Enqueue the Applications of a changed object."""
        manifest = new or old
        if manifest is None:
            return
        ref = ref_of(manifest)
        if ref.of == APPLICATION:
            self._on_application_change(old, new)
        # kinds and schemas are cached until a definition changes
        if ref.of == CRD:
            self._on_definition_change(old, new, defined_kind(manifest))
        owners = self._live.owners(manifest)
        # leaders renew their Leases every few seconds, which concerns no Application that owns the workload
        for owner in owners[:1] if is_renewal(old, new) else owners:
            owner_ref = ref if owner is manifest else ref_of(owner)
            for key in self._state.tracked.applications_for(owner_ref):
                self._changed.add(key, owner_ref)
                self._queue.add_part_after(key, DEBOUNCE)

    def _on_definition_change(self, old: Manifest | None, new: Manifest | None, of: GroupKind) -> None:
        """Ask again for what depends on a definition, also for Applications whose objects did not fit it."""
        self._cluster.definitions_changed()
        if new is None:
            # a watch of a kind without a definition would fail and be retried for ever
            self._live.forget(of)
        elif old is None or metadata_of(old).get("generation") != metadata_of(new).get("generation"):
            # The watches of a kind end some moments after its definition changed. Until then their events are decoded
            # by the former schema, without the fields that it lacks (apiextensions-apiserver, crdHandler).
            self._live.relist(of, _PUBLISHED_AFTER)
        for key in self._state.tracked.applications_of(of):
            self._queue.add_after(key, _PUBLISHED_AFTER)

    def enqueue_all(self) -> None:
        """Enqueue every Application: a watch failed or recovered."""
        self._enqueue_those(lambda key: True)

    def enqueue_moved(self) -> None:
        """Enqueue the Applications that were another replica's and are ours now, or the other way round."""
        self._enqueue_those(lambda key: self._is_ours.get(key) is not self._share.owns(key))

    def _enqueue_those(self, is_due: Callable[[str], bool]) -> None:
        self._queue.add_after(_UNRESOLVED, DEBOUNCE)
        for key in filter(is_due, map(_key, self._all(APPLICATION))):
            self._queue.add_after(key, DEBOUNCE)

    def request_sync(self, key: str, by: str) -> bool:
        """Poll Git and sync now, on behalf of a user; return whether the Application exists."""
        manifest = self._application(key)
        if manifest is None:
            return False
        if self._share.owns(key):
            self._pipeline.request(uid_of(manifest), by)
            # urgent: a person waits for it
            self._queue.add(key, urgent=True)
        else:
            self._annotate(manifest, REQUEST_MANAGER, REQUESTED_SYNC)
        return True

    def observe(self, key: str) -> None:
        """Observe an Application of another process here for some minutes."""
        manifest = self._application(key)
        if manifest is not None and not self._share.owns(key) and self._pipeline.observe(uid_of(manifest)):
            # urgent: a person waits for it
            self._queue.add(key, urgent=True)

    def request_chosen(self, key: str, choice: Choice) -> str:
        """Request a sync of some objects by annotations; return its id, empty for an unknown Application."""
        manifest = self._application(key)
        if manifest is None:
            return ""
        request = self._request_id()
        annotations = {REQUESTED_SYNC: request, REQUESTED_OBJECTS: choice.to_annotation()}
        # in one apply: a request without its objects is one for all
        self._cluster.apply(_only(manifest, metadata={"annotations": annotations}), manager=REQUEST_MANAGER)
        return request

    def request_repair(self, key: str, refs: frozenset[ObjectRef], by: str) -> bool:
        """Restore objects now, on behalf of a user; False for an unknown Application."""
        manifest = self._application(key)
        if manifest is None:
            return False
        request = RepairRequest(refs, by)
        if self._share.owns(key):
            self._pipeline.request_repair(uid_of(manifest), request)
            self._queue.add(key, urgent=True)
        else:
            annotations = {REQUESTED_REPAIR: request.to_annotation(self._request_id())}
            self._cluster.apply(_only(manifest, metadata={"annotations": annotations}), manager=REPAIR_MANAGER)
        return True

    def _request_id(self) -> str:
        # with a random part: two requests of one moment differ
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}-{uuid.uuid4().hex[:8]}"

    def repository_changed(self, is_it: Callable[[str], bool], push: Push | None = None) -> int:
        """
        Poll the repositories with these URLs now; return how many Applications have one.

        Only those that a new commit affects are reconciled; where the push tells that it affects none, nothing is
        polled. Another replica is notified once for each branch, whatever the number of its Applications.
        """
        keys = self._repositories.find(is_it)
        # only those that no branch watches: the watcher polls for the others, one request for each repository
        unwatched_keys = self._watcher.poll_now(keys, push)
        unwatched = [(key, manifest) for key in unwatched_keys if (manifest := self._application(key))]
        ours = [key for key, _ in unwatched if self._share.owns(key)]
        others = [(key, manifest) for key, manifest in unwatched if not self._share.owns(key)]
        self.poll_now(ours)
        for key in one_of_each(others, self._share.owner_of, self._state.views.application):
            self._notify(key, GIT_PUSHED)
        return len(keys)

    def pod_entered(self, pod: ObjectRef, execution: Execution) -> tuple[tuple[str, ObjectRef], ...]:
        """Note what a user ran in a Pod; return the Applications with the objects of which the Pod is a part."""
        resource = self._cluster.resource("", "v1", POD.kind)
        manifest = None
        with suppress(GitsyncError):  # its namespace is not watched, so no Application has objects there
            manifest = self._live.get(resource, pod.namespace, pod.name) if resource is not None else None
        owners = [ref_of(owner) for owner in self._live.owners(manifest)] if manifest is not None else []
        parts = [(key, ref) for ref in owners for key in sorted(self._state.tracked.applications_for(ref))]
        if not parts or not self._state.executions.note(pod, execution):
            return ()
        for key, _ in parts:
            self._queue.add(key)
        return tuple(parts)

    def poll_now(self, keys: Iterable[str]) -> None:
        """Reconcile these Applications now and poll Git: a push was received."""
        for key in keys:
            manifest = self._application(key)
            if manifest is not None and self._share.owns(key):
                self._pipeline.poll_now(uid_of(manifest))
                self._queue.add(key)
            elif manifest is not None:
                self._notify(key, GIT_CHANGED)

    def _notify(self, key: str, annotation: str) -> None:
        """Notify the replica of an Application of a push; ``GIT_CHANGED`` also has the newest commit reported."""
        # the stronger notification stays: it includes what the other one does
        if self._pending_notifications.get(key) != GIT_CHANGED:
            self._pending_notifications[key] = annotation
        last = self._notified_at.get(key, float("-inf"))
        self._queue.add_after(key, last + _FORWARD_DELAY - self._clock.monotonic())

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` of an Application and nothing else; the watch event triggers the reconcile."""
        manifest = self._application(key)
        if manifest is None:
            return False
        # of its own field manager, so that Git may declare spec.suspend without a conflict
        self._cluster.apply(_only(manifest, spec={"suspend": suspended}), manager=SUSPEND_MANAGER)
        return True

    def write_hold(self, key: str, name: str, text: str) -> bool:
        """Set the annotation of a hold, or remove it where the text is empty; the watch event triggers a reconcile."""
        manifest = self._application(key)
        if manifest is None:
            return False
        held = _only(manifest)
        if text:
            held["metadata"]["annotations"] = {name: text}
        # an apply without the annotation removes it, since only this manager has it
        self._cluster.apply(held, manager=hold_manager(name))
        return True

    def wake_owner(self, manifest: Manifest, digest: str) -> None:
        """Annotate an Agent or system, so that its replica reconciles it; the annotation approves nothing."""
        metadata = {name: metadata_of(manifest)[name] for name in ("name", "namespace", "uid")}
        metadata["annotations"] = {APPROVE: digest}
        manifest = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata}
        self._cluster.apply(manifest, manager=REQUEST_MANAGER)

    def repositories(self) -> frozenset[str]:
        """Return the URLs of the repositories that Applications of any replica name."""
        return self._repositories.urls()

    @property
    def watcher(self) -> GitWatcher:
        """What queries Git servers, for other controllers too: one query of a URL answers all."""
        return self._watcher

    def cached(self) -> int:
        """Return how many Applications have a cache."""
        return self._pipeline.cached()

    def _annotate(self, manifest: Manifest, manager: str, annotation: str) -> None:
        """Notify the replica that reconciles an Application, by an annotation with a new value."""
        # any new value is a change of the object, which its replica observes; the time is only informative
        text = self._clock.now().isoformat()
        self._cluster.apply(_only(manifest, metadata={"annotations": {annotation: text}}), manager=manager)

    def _application(self, key: str) -> Manifest | None:
        return self._get(OwnerKey.parse(key))

    def _on_application_change(self, old: Manifest | None, new: Manifest | None) -> None:
        """Enqueue an Application whose input changed; status writes are not input."""
        key = _key(new or old or {})
        is_same_input = old is not None and new is not None and _input(old) == _input(new)
        if not is_same_input:
            self._repositories.set(key, source_urls(new or {}))
        if old is not None and new is not None:
            # of another replica, the status is what is displayed, so that each change of it counts
            if is_same_input and self._share.owns(key):
                return
            if _differ(old, new, GIT_CHANGED):
                self._pipeline.report_newest(uid_of(new))
            elif _differ(old, new, GIT_PUSHED):
                self._pipeline.poll_now(uid_of(new))
            if _differ(old, new, REQUESTED_REPAIR):
                # where another replica owns it, the relay drops the request
                repair = RepairRequest.from_annotation(annotations_of(new).get(REQUESTED_REPAIR, ""))
                # one that was taken away requests nothing, and must not replace who requests what is pending
                if repair.refs:
                    self._pipeline.request_repair(uid_of(new), repair)
        if new is not None:
            # at once: an object that another Application gives up in the same commit waits for this one
            self._state.declarations.register(key, Reach.of(new))
        # the cache is by uid: a new Application of the same name starts with an empty one
        if new is None and old is not None:
            self._pipeline.forget(uid_of(old))
        self._queue.add(key)


def _differ(old: Manifest, new: Manifest, annotation: str) -> bool:
    return annotations_of(old).get(annotation) != annotations_of(new).get(annotation)


def _only(manifest: Manifest, metadata: Manifest | None = None, **members: Manifest) -> Manifest:
    """Return the manifest to apply that sets these members of an Application and no others."""
    name = {"name": metadata_of(manifest)["name"], "namespace": metadata_of(manifest)["namespace"]}
    return {"apiVersion": API_VERSION, "kind": APPLICATION.kind, "metadata": {**name, **(metadata or {})}, **members}


def _input(manifest: Manifest) -> tuple[object, ...]:
    meta = metadata_of(manifest)
    # generation for the spec, which a write to the status leaves; annotations have the requests
    return (uid_of(manifest), meta.get("generation"), annotations_of(manifest), meta.get("deletionTimestamp"))


def _key(manifest: Manifest) -> str:
    meta = metadata_of(manifest)
    return f"{meta.get('namespace')}/{meta.get('name')}"


class ChangedObjects:
    """Collect changed objects by Application until a reconcile takes them. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[str, set[ObjectRef]] = {}

    def add(self, key: str, ref: ObjectRef) -> None:
        """Store that an object of an Application changed."""
        with self._lock:
            self._changed.setdefault(key, set()).add(ref)

    def take(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects of an Application that changed since the last call."""
        with self._lock:
            return frozenset(self._changed.pop(key, ()))


class RepositoryIndex:
    """Find Applications by the URLs of their repositories, of which there are far fewer than Applications."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: defaultdict[str, set[str]] = defaultdict(set)
        self._urls: dict[str, frozenset[str]] = {}

    def set(self, key: str, urls: frozenset[str]) -> None:
        """Store the repositories of an Application; without one, it is removed."""
        with self._lock:
            for url in self._urls.pop(key, frozenset()):
                self._keys[url].discard(key)
                if not self._keys[url]:
                    del self._keys[url]
            if urls:
                self._urls[key] = urls
            for url in urls:
                self._keys[url].add(key)

    def urls(self) -> frozenset[str]:
        """Return the URLs of all repositories."""
        with self._lock:
            return frozenset(self._keys)

    def find(self, is_it: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the keys of the Applications of which a URL is one of those wanted."""
        with self._lock:
            return tuple(dict.fromkeys(key for url, keys in self._keys.items() if is_it(url) for key in keys))
