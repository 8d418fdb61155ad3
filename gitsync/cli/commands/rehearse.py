"""``gitsync rehearse``: a change is applied to a cluster that has the state before it, and then reverted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from gitsync.cli.change import PreviewedChange, local_change
from gitsync.cli.options import Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import Conflict, GitsyncError, InvalidInput, one_line
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.kube.messages import immutable_fields
from gitsync.kube.openapi import resources
from gitsync.objects.change import Action, Change
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.options import Deletion, Reconcile
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.mask import mask_text
from gitsync.plan.options import options_of
from gitsync.plan.order import in_order, prune_stage, stage_of
from gitsync.plan.risk.objects import loses_data
from gitsync.ports import Cluster
from gitsync.preview.compare import ChangedRoot, Sides, changed_roots
from gitsync.workers.helm import HelmProgram

_MANAGER: Final = "gitsync"
_SETTLE: Final = 20.0
"""Seconds in which a definition is served, and a deleted object gone; controllers need less than one."""
_COLUMNS: Final = ("folder", "object", "step", "problem", "where")
_UNKNOWN: Final = "not known here: images, probes, nodes, load, and what webhooks and rights of your cluster refuse"


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


@command
def rehearse(
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BASE..HEAD] [PATH]...",
            help="The commits to merge, by default the branch of the remote and HEAD; and the folders to cover.",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> Exit:
    """
    Apply a change and its revert to a sandbox cluster, and list what is refused. Exit code 2: something is refused,
    or a revert does not bring it back.
    """
    spans = [item for item in change or () if ".." in item.split("/")[-1] or "..." in item]
    if len(spans) > 1:
        raise InvalidInput("name one range of commits")
    paths = [item for item in change or () if item not in spans]
    previewed = local_change(spans[0] if spans else "", paths, None, staged=False)
    rows: list[dict[str, Any]] = []
    unknown: set[GroupKind] = set()
    for changed in _changed(previewed):
        rehearsal = _in_sandbox(changed)
        unknown |= rehearsal.unknown
        rows += [_row(changed, problem) for problem in rehearsal.problems]
    if rows or output is not Format.TABLE:
        show(rows, _COLUMNS, output, key="object")
    else:
        say("nothing is refused, and a revert brings everything back", "green")
    if unknown:
        kinds = ", ".join(sorted(map(str, unknown)))
        say(f"not judged, since no folder of the change defines these kinds: {kinds}", "yellow", is_warning=True)
    say(_UNKNOWN, is_warning=True)
    return Exit.INVALID if rows else Exit.OK


def _changed(previewed: PreviewedChange) -> Iterator[ChangedRoot]:
    sides = Sides(previewed.base, previewed.result, previewed.merge.changed, HelmProgram())
    return changed_roots(sides, previewed.is_own, previewed.below)


def _row(changed: ChangedRoot, problem: RehearsalProblem) -> dict[str, Any]:
    return {
        "folder": changed.root.name,
        "object": str(problem.ref),
        "step": problem.step.value,
        "problem": problem.message,
        "where": changed.places.get(problem.ref, ""),
    }


def _in_sandbox(changed: ChangedRoot) -> Rehearsal:
    """Rehearse the change of one folder in a cluster of its own, on loopback, that ends with it."""
    from gitsync.sandbox.server import Sandbox  # late: it takes longer to import than all other commands

    with TemporaryDirectory(prefix="gitsync-") as folder, Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(Path(folder) / "kubeconfig"))))
        try:
            return rehearsal_of(KubernetesCluster(client), changed.old, changed.new)
        finally:
            client.close()


def rehearsal_of(cluster: Cluster, old: Mapping[ObjectRef, Manifest], new: Mapping[ObjectRef, Manifest]) -> Rehearsal:
    """
    Apply what a folder declares, change it, and revert the change.

    An object that the cluster refuses already before the change is not judged: there it exists, as it was accepted by
    other rules.
    """
    return _Rehearser(cluster, old, new).run()


_BUILT_IN_GROUPS: Final = frozenset(resource.group for resource in resources())


class _Rehearser:
    """The rehearsal of one folder."""

    def __init__(self, cluster: Cluster, old: Mapping[ObjectRef, Manifest], new: Mapping[ObjectRef, Manifest]) -> None:
        self._cluster = cluster
        self._old = old
        self._new = new
        self._problems: list[RehearsalProblem] = []
        self._unknown: set[GroupKind] = set()
        self._not_judged: set[ObjectRef] = set()

    def run(self) -> Rehearsal:
        """Return what is refused."""
        self._add_namespaces()
        for ref in _in_order(self._old):
            if self._apply(ref, self._old[ref]):
                self._not_judged.add(ref)
        applied = [ref for ref in _in_order(self._new) if self._is_applied(ref)]
        refused = {ref for ref in applied if self._judge(ref, RehearsalStep.APPLY, self._new[ref])}
        pruned = [step for step in _pruned(self._old, self._new) if step.ref not in self._not_judged]
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
        existing = self._old or self._new
        namespaces = {ref.namespace for ref in existing} - {ref.name for ref in existing if ref.of == NAMESPACE}
        for name in sorted(namespaces - {""}):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
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
