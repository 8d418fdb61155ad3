"""
Rehearse a change: apply it to a sandbox that has the state before it, prune, and revert it.

What it needs of the sandbox is in memory: no port, no file, so that a render process can do it too.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gitsync.cluster.client import DirectClient
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Conflict, GitsyncError, Rejected, one_line
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.kube.messages import immutable_fields
from gitsync.kube.openapi import resources
from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.options import Deletion, Reconcile
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.mask import is_secret, mask_text
from gitsync.plan.options import options_of
from gitsync.plan.order import in_order, prune_stage, stage_of
from gitsync.plan.risk.objects import loses_data
from gitsync.ports import Cluster
from gitsync.preview.compare import ChangedRoot
from gitsync.preview.report import ReportedRefusal, ReportedRehearsal
from gitsync.secrets import MEMBER, is_encrypted

_MANAGER: Final = "gitsync"
_SETTLE: Final = 20.0
"""Seconds in which a definition is served, and a deleted object gone; controllers need less than one."""


class RehearsalStep(StrEnum):
    """The step in which an object has a problem."""

    APPLY = "apply"
    PRUNE = "prune"
    REVERT = "revert"


@dataclass(frozen=True, slots=True)
class RehearsalProblem:
    """What an API server refuses of a change or of its revert, or what a revert does not bring back."""

    ref: ObjectRef
    step: RehearsalStep
    message: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The problems of a change, and the kinds that could not be judged, since nothing defines them here."""

    problems: tuple[RehearsalProblem, ...]
    unknown: frozenset[GroupKind]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    What a folder is rehearsed in.

    ``objects`` are definitions, classes, quotas and policies of a cluster; ``live`` are the objects of the folder as
    the cluster has them, None where no cluster was read. ``is_namespace_used`` tells which namespaces exist besides
    those that the folder uses before the change. ``unread`` says what could not be read of the cluster.
    """

    objects: tuple[Manifest, ...] = ()
    live: Mapping[ObjectRef, Manifest] | None = None
    is_namespace_used: Callable[[str], bool] = lambda name: False
    unread: tuple[str, ...] = ()


def rehearse_all(
    changes: Iterable[ChangedRoot], surroundings_of: Callable[[ChangedRoot], Surroundings] | None = None
) -> ReportedRehearsal:
    """
    Rehearse the change of each deployed folder in a sandbox of its own.

    ``surroundings_of`` returns what a folder is rehearsed in; by default what the other folders declare before it.
    """
    refusals: list[ReportedRefusal] = []
    not_judged: set[str] = set()
    for changed in changes:
        if changed.problem:
            not_judged.add(f"{changed.root.name}: {changed.problem}")
            continue
        surroundings = surroundings_of(changed) if surroundings_of else _of_folders(changed)
        rehearsal = _in_sandbox(changed, surroundings)
        not_judged |= {f"{kind}, which no folder of the change defines" for kind in rehearsal.unknown}
        not_judged |= set(surroundings.unread)
        refusals += [_refusal(changed, problem) for problem in rehearsal.problems]
    return ReportedRehearsal(refusals=tuple(refusals), not_judged=tuple(sorted(not_judged)))


def _of_folders(changed: ChangedRoot) -> Surroundings:
    return Surroundings(is_namespace_used=changed.is_namespace_used)


def _refusal(changed: ChangedRoot, problem: RehearsalProblem) -> ReportedRefusal:
    return ReportedRefusal(
        folder=changed.root.name,
        object=str(problem.ref),
        step=problem.step.value,
        problem=problem.message,
        where=changed.places.get(problem.ref, ""),
    )


def _in_sandbox(changed: ChangedRoot, surroundings: Surroundings) -> Rehearsal:
    """Rehearse the change of one folder in a cluster of its own, which ends with it."""
    from gitsync.sandbox.server import Sandbox  # late: it takes longer to import than all other commands

    with Sandbox(workloads=False, listening=False) as sandbox:
        return rehearsal_of(KubernetesCluster(DirectClient(sandbox.answer)), changed.old, changed.new, surroundings)


def rehearsal_of(
    cluster: Cluster,
    old: Mapping[ObjectRef, Manifest],
    new: Mapping[ObjectRef, Manifest],
    surroundings: Surroundings | None = None,
) -> Rehearsal:
    """
    Apply what a folder declares, change it, and revert the change.

    An object that the cluster refuses already before the change is not judged: there it exists, as it was accepted by
    other rules.
    """
    old, new = ({ref: readable(manifest) for ref, manifest in side.items()} for side in (old, new))
    return _Rehearser(cluster, old, new, surroundings or Surroundings()).run()


_UNSEALED_TEXT: Final = "{}"
_UNSEALED: Final = base64.b64encode(_UNSEALED_TEXT.encode()).decode()
"""The value of a Secret that is not known here: of every type a valid one, also of ``dockerconfigjson``."""


def readable(manifest: Manifest) -> Manifest:
    """Return a manifest as the controller applies it, with another value for what SOPS encrypts."""
    if not is_encrypted(manifest):
        return manifest
    plain = {key: value for key, value in manifest.items() if key != MEMBER}
    return masked_secret(plain) if is_secret(ref_of(plain)) else plain


def masked_secret(manifest: Manifest) -> Manifest:
    """Return a Secret with the keys that it has, and no value of them."""
    fillers = {"data": _UNSEALED, "stringData": _UNSEALED_TEXT}
    return {
        key: dict.fromkeys(value, fillers[key]) if key in fillers and isinstance(value, dict) else value
        for key, value in manifest.items()
    }


_BUILT_IN_GROUPS: Final = frozenset(resource.group for resource in resources())


class _Rehearser:
    """The rehearsal of one folder."""

    def __init__(
        self,
        cluster: Cluster,
        old: Mapping[ObjectRef, Manifest],
        new: Mapping[ObjectRef, Manifest],
        surroundings: Surroundings,
    ) -> None:
        self._cluster = cluster
        self._old = old
        self._new = new
        self._surroundings = surroundings
        self._problems: list[RehearsalProblem] = []
        self._unknown: set[GroupKind] = set()
        self._not_judged: set[ObjectRef] = set()

    def run(self) -> Rehearsal:
        """Return what is refused."""
        self._add_namespaces()
        for manifest in self._surroundings.objects:
            with suppress(GitsyncError):  # what this cluster has its own of, such as the namespace kube-system
                self._cluster.apply(manifest, manager="cluster")
        if self._surroundings.objects:
            self._cluster.definitions_changed()
        existing = self._old if self._surroundings.live is None else self._surroundings.live
        for ref in _in_order(existing):
            if self._apply(ref, existing[ref]):
                self._not_judged.add(ref)
        applied = [ref for ref in _in_order(self._new) if self._is_applied(ref)]
        refused = {ref for ref in applied if self._judge(ref, RehearsalStep.APPLY, self._new[ref])}
        pruned = [step for step in _pruned(self._old, self._new) if step.ref not in self._not_judged]
        if self._surroundings.live is not None:
            pruned = [step for step in pruned if step.ref in self._surroundings.live]
        for step in pruned:
            self._prune(step)
        self._revert([ref for ref in applied if ref not in refused], [step for step in pruned if not loses_data(step)])
        return Rehearsal(tuple(self._problems), frozenset(self._unknown))

    def _is_applied(self, ref: ObjectRef) -> bool:
        """Whether a sync of the change applies an object: what differs, if annotations let it."""
        reconcile = options_of(self._new[ref]).reconcile
        is_let = reconcile is Reconcile.ALWAYS or (reconcile is Reconcile.ONCE and ref not in self._old)
        return is_let and self._new[ref] != self._old.get(ref)

    def _add_namespaces(self) -> None:
        """Create the namespaces that exist before the change; of a new folder, those that it needs exist elsewhere."""
        if self._surroundings.live is not None:  # the cluster has its own
            return
        existing = self._old or self._new
        declared = {ref.name for side in (self._old, self._new) for ref in side if ref.of == NAMESPACE}
        added = {ref.namespace for ref in self._new} - {ref.namespace for ref in existing} - declared - {""}
        used = {name for name in added if self._surroundings.is_namespace_used(name)}
        namespaces = {ref.namespace for ref in existing} - {ref.name for ref in existing if ref.of == NAMESPACE}
        for name in sorted(used | namespaces - {""}):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            with suppress(Rejected):  # a name that is not valid: what is in it is refused where it is applied
                self._cluster.apply(namespace, manager="namespaces")

    def _judge(self, ref: ObjectRef, step: RehearsalStep, manifest: Manifest) -> bool:
        """Apply an object, and report why that is refused; return whether it is."""
        if ref in self._not_judged:
            return True
        problem = self._apply(ref, manifest)
        if problem and ref not in self._not_judged:
            self._problems.append(RehearsalProblem(ref, step, problem))
        return bool(problem)

    def _apply(self, ref: ObjectRef, manifest: Manifest) -> str:
        """Apply an object; return why it is refused, empty where it is not."""
        version = str(manifest["apiVersion"]).rpartition("/")[2]

        def is_served() -> bool:
            return self._cluster.resource(ref.group, version, ref.kind) is not None

        # a definition is served a moment after it is written, as by any API server
        if not is_served() and not (self._is_defined(ref.of) and self._eventually(is_served)):
            if ref.group not in _BUILT_IN_GROUPS:
                self._unknown.add(ref.of)
                self._not_judged.add(ref)
            return f"Kubernetes has no kind {ref.kind} in {manifest['apiVersion']}"
        options = options_of(manifest)
        try:
            if options.hooks:
                self._delete(ref, version)
            self._cluster.apply(manifest, manager=_MANAGER)
        except GitsyncError as error:
            if options.force and immutable_fields(error):
                self._delete(ref, version)
                return self._apply(ref, manifest)
            return one_line(mask_text(error.message, [manifest]), 500)
        return ""

    def _is_defined(self, of: GroupKind) -> bool:
        definitions = (manifest for side in (self._old, self._new) for ref, manifest in side.items() if ref.of == CRD)
        return any(
            (spec.get("group"), (spec.get("names") or {}).get("kind")) == of
            for spec in (manifest.get("spec") or {} for manifest in definitions)
        )

    def _prune(self, step: Change) -> None:
        if loses_data(step):
            message = "is deleted with its data, which a revert does not bring back"
            self._problems.append(RehearsalProblem(step.ref, RehearsalStep.REVERT, message))
        try:
            self._delete(step.ref, str((step.live or {})["apiVersion"]).rpartition("/")[2])
        except GitsyncError as error:
            self._problems.append(RehearsalProblem(step.ref, RehearsalStep.PRUNE, one_line(error.message, 500)))

    def _revert(self, applied: list[ObjectRef], pruned: list[Change]) -> None:
        """Apply what was before; what the change created is deleted."""
        for ref in reversed(applied):
            if ref not in self._old:
                with suppress(GitsyncError):  # what cannot be deleted is reported where a change deletes it
                    self._delete(ref, str(self._new[ref]["apiVersion"]).rpartition("/")[2])
        restored = {*applied, *(step.ref for step in pruned)}
        for ref in _in_order(self._old):
            if ref in restored:
                self._judge(ref, RehearsalStep.REVERT, self._old[ref])

    def _delete(self, ref: ObjectRef, version: str) -> None:
        """Delete an object, and wait until it is gone, so that it can be created again."""
        live = self._cluster.read(ref, version)
        if live is None:
            return
        with suppress(Conflict):  # another controller was faster
            self._cluster.delete(ref, version, uid=uid_of(live))
        self._eventually(lambda: self._cluster.read(ref, version) is None)

    def _eventually(self, holds: Callable[[], bool]) -> bool:
        give_up = time.monotonic() + _SETTLE
        while not holds():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.05)
            # which kinds are served is remembered otherwise
            self._cluster.definitions_changed()
        return True


def _in_order(objects: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Return objects in the order in which a sync applies them."""
    steps = (
        Change(ref, Action.CREATE, stage=stage_of(ref.of), wave=options_of(manifest).wave, desired=manifest)
        for ref, manifest in objects.items()
    )
    return [step.ref for step in in_order(steps)]


def _pruned(old: Mapping[ObjectRef, Manifest], new: Mapping[ObjectRef, Manifest]) -> tuple[Change, ...]:
    """Return the deletes of a change in their order; as a sync does, without what annotations keep."""
    steps = (
        Change(ref, Action.PRUNE, stage=prune_stage(ref.of, options_of(manifest)), live=manifest)
        for ref, manifest in old.items()
        if ref not in new and options_of(manifest).prune is Deletion.ALLOWED and not options_of(manifest).hooks
    )
    return in_order(replace(step, options=options_of(step.live or {})) for step in steps)
