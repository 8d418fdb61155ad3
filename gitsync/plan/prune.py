"""Prune: delete, or release, objects of the inventory that are owned, live and no longer declared, and no others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gitsync.kube.parts import WORKLOADS
from gitsync.merge.schema import builtin
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import AGENTS_GROUP, APPLICATION_LABEL, GROUP, TRACKING_ID
from gitsync.objects.manifest import Manifest, annotations_of, escaped_name, labels_of, metadata_of, uid_of
from gitsync.objects.options import Deletion, Options
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import options_of
from gitsync.plan.order import prune_stage
from gitsync.plan.ownership import without_manager
from gitsync.plan.tracking import is_owned, owner_of


def prune_changes(
    app: Application,
    desired: Collection[ObjectRef],
    live: Mapping[ObjectRef, Manifest],
    inventory: Inventory,
    claims: Mapping[ObjectRef, str],
) -> tuple[Change, ...]:
    """
    Return a step for every object of the inventory that is live and no longer declared.

    The step is a prune only where the live object still carries our marks and the uid we know, and no annotation or
    setting keeps it; otherwise it does nothing and gives the reason. An object that its annotation keeps is
    released, and one that another Application declares now (``claims``) is left to it. Where nothing at all is
    declared, as when the Application itself is deleted, objects that are to outlive it are kept too. An object outside
    the inventory is never mentioned.
    """
    steps = []
    # What is absent from the cluster needs no step: the inventory drops it.
    for ref in sorted(ref for ref in inventory.entries.keys() - desired if ref in live):
        options = options_of(live[ref])
        claimant = claims.get(ref)
        if not claimant and _is_released(app, ref, live[ref], inventory.entries[ref].uid, options):
            steps.append(_release(app, ref, live[ref], options))
            continue
        if claimant:
            kept = f"kept: {claimant} declares it now"
        elif (app.is_deleted or not desired) and options.delete is Deletion.KEEP:
            kept = "kept: its annotation excludes it from the deletion of its application"
        else:
            kept = _why_kept(app, live[ref], inventory.entries[ref].uid, options)
        steps.append(_step(ref, live[ref], options, kept))
    return tuple(_operators_last(steps))


def _operators_last(steps: Sequence[Change]) -> list[Change]:
    """
    Return the steps, where a workload is pruned with custom resources that have finalizers before everything else.

    The workload may be the operator that ends these finalizers: without it the resources would stay for good, and
    their definition with them.
    """
    pruned = [step for step in steps if step.action is Action.PRUNE]
    if not any(step.ref.of in WORKLOADS for step in pruned):
        return list(steps)
    first = {step.ref for step in pruned if _is_custom(step) and metadata_of(step.live or {}).get("finalizers")}
    # a wave of their own: what follows waits until they are gone
    wave = min(step.wave for step in pruned) - 1
    stage = min(step.stage for step in pruned)
    return [replace(step, stage=stage, wave=wave) if step.ref in first else step for step in steps]


def _is_custom(step: Change) -> bool:
    """Whether a step is of a kind that Kubernetes does not define, and neither does gitsync."""
    live = step.live or {}
    version = str(live.get("apiVersion") or "").rpartition("/")[2]
    is_builtin = builtin().for_kind(step.ref.group, version, step.ref.kind) is not None
    return not is_builtin and step.ref.group not in (GROUP, AGENTS_GROUP)


def _is_released(app: Application, ref: ObjectRef, live: Manifest, known_uid: str, options: Options) -> bool:
    """
    Whether an object is given up: its annotation keeps it for good.

    Our own kinds are not: the marks of an Application limit what its spec may do.
    """
    keeps = options.prune is Deletion.KEEP or (app.is_deleted and options.delete is Deletion.KEEP)
    # An empty uid: the object was applied and not observed since.
    is_known = is_owned(app, live) and known_uid in ("", uid_of(live))
    return keeps and is_known and not app.owns_by_reference and ref.group not in (GROUP, AGENTS_GROUP)


def _release(app: Application, ref: ObjectRef, live: Manifest, options: Options) -> Change:
    """Return the step that removes our marks, and our ownership of every field."""
    marks = (("labels", APPLICATION_LABEL, labels_of(live)), ("annotations", TRACKING_ID, annotations_of(live)))
    return Change(
        ref,
        Action.RELEASE,
        reason="its annotation keeps it",
        stage=prune_stage(ref.of, options),
        # deletes run in the reverse order of the waves
        wave=-options.wave,
        live=live,
        options=options,
        managed_fields=without_manager(live, app.field_manager),
        removed=tuple(f"/metadata/{where}/{escaped_name(mark)}" for where, mark, entries in marks if mark in entries),
    )


def _step(ref: ObjectRef, live: Manifest, options: Options, kept: str) -> Change:
    return Change(
        ref,
        Action.NOTHING if kept else Action.PRUNE,
        reason=kept or "no longer declared in Git",
        stage=prune_stage(ref.of, options),
        wave=-options.wave,
        live=live,
        options=options,
    )


def _why_kept(app: Application, live: Manifest, known_uid: str, options: Options) -> str:
    # First: an object that is not ours any more is kept whatever its uid and its options are.
    if not is_owned(app, live):
        owner = owner_of(live)
        return f"kept: now belongs to {owner}" if owner else "kept: no longer carries this application's marks"
    if known_uid and known_uid != uid_of(live):
        return "kept: it was recreated by another client; its uid is not the one in the inventory"
    if options.prune is Deletion.KEEP:  # of our own kinds
        return "kept: its annotation disables pruning"
    if not app.sync.prune:
        return "kept: pruning is off for this application"
    return ""
