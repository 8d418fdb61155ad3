"""Pushes for other replicas: which objects carry the notification, as one poll of a branch wakes all that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gitsync.objects.conditions import find_condition
from gitsync.objects.keys import API_VERSION, APPLICATION_SET, GIT_PUSHED, PUSH_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.risk.applications import git_generators
from gitsync.ports import ApplicationView, Clock, Cluster

_FORWARD_DELAY = 0.5
"""Minimum seconds between push notifications by the same set."""


def one_of_each(
    applications: Iterable[tuple[str, Manifest]],
    owner_of: Callable[[str], str],
    view_of: Callable[[str], ApplicationView | None],
) -> tuple[str, ...]:
    """
    Return the key of one Application for each replica and branch.

    One that its replica does not poll (suspended, deleted, with an invalid spec) is taken for none that it polls.
    """
    keys: dict[tuple[object, ...], str] = {}
    for key, manifest in applications:
        view = view_of(key)
        sources = at(manifest, "spec", "sources") or [at(manifest, "spec", "source", default={})]
        namespace = metadata_of(manifest).get("namespace")
        # apart from those that poll: a notification on one that its replica does not poll would wake no other
        is_polled = not (
            at(manifest, "spec", "suspend", default=False) or metadata_of(manifest).get("deletionTimestamp")
        )
        is_valid = view is not None and view.application is not None
        # setdefault: the first one of each group carries the notification for all
        branches = tuple(_branch_of(source, namespace) for source in sources)
        keys.setdefault((owner_of(key), branches, is_polled, is_valid), key)
    return tuple(keys.values())


def one_set_of_each(sets: Iterable[Manifest], owner_of: Callable[[ObjectRef], str]) -> tuple[ObjectRef, ...]:
    """Return one set for each replica and each combination of branches that its generators read."""
    refs: dict[tuple[object, ...], ObjectRef] = {}
    for set_ in sets:
        ref = ref_of(set_)
        namespace = metadata_of(set_).get("namespace")
        generators = git_generators(at(set_, "spec", "generators"))
        branches = frozenset(_branch_of(git, namespace) for git in generators)
        is_stalled = find_condition(set_.get("status") or {}, "Stalled").get("status") == "True"
        refs.setdefault((owner_of(ref), branches, is_stalled), ref)
    return tuple(refs.values())


def _branch_of(git: Mapping[str, Any], namespace: object) -> tuple[object, ...]:
    """Return what readers that share a poll have in common: credentials are of a namespace."""
    credentials = str(git.get("credentials") or "")
    # a Secret is of one namespace: the same name elsewhere is another credential
    return (git.get("repoURL"), git.get("revision"), credentials, namespace if credentials else "")


class SetPushes:
    """Pushes that other replicas have to be notified of, by an annotation on a set of theirs."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._pending: set[ObjectRef] = set()
        self._sent_at: dict[ObjectRef, float] = {}

    def add(self, ref: ObjectRef) -> float:
        """Keep a notification until it is taken; return the seconds until it may be sent."""
        self._pending.add(ref)
        # a push within the delay is kept and sent by the delayed reconcile
        return self._sent_at.get(ref, float("-inf")) + _FORWARD_DELAY - self._clock.monotonic()

    def take(self, ref: ObjectRef) -> bool:
        """Remove the pending notification by this set; return whether there was one."""
        is_pending = ref in self._pending
        self._pending.discard(ref)
        return is_pending

    def send(self, ref: ObjectRef) -> None:
        """Notify the replica that reconciles a set."""
        self._sent_at[ref] = self._clock.monotonic()
        metadata = {
            "name": ref.name,
            "namespace": ref.namespace,
            "annotations": {GIT_PUSHED: self._clock.now().isoformat()},
        }
        manifest = {"apiVersion": API_VERSION, "kind": APPLICATION_SET.kind, "metadata": metadata}
        self._cluster.apply(manifest, manager=PUSH_MANAGER)

    def forget(self, ref: ObjectRef) -> None:
        """Drop what is kept of a set that is gone."""
        self._pending.discard(ref)
        self._sent_at.pop(ref, None)
