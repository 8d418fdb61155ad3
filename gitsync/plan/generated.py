"""
Generated objects: ConfigMaps and Secrets with a hash of their content in the name, so that each content is an object.

Pods of the former revision go on reading the former object: one that restarts without it fails with
CreateContainerConfigError, and so does every Pod of a revision that a user rolls back to. So it is pruned later than
other objects that Git no longer declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.drift import compare_objects
from gitsync.plan.hook_needs import needs_of
from gitsync.plan.running import is_current
from gitsync.plan.steps import SchemaOf

_HASH = re.compile(r"-[a-z0-9]{10}$", re.ASCII)
# hexadecimal digits with 0, 1, 3, a and e replaced (api/hasher/hasher.go of Kustomize)
_GENERATED = re.compile(r"-[2456789bcdfghkmt]{10}$", re.ASCII)
"""The suffix that Kustomize gives to names; its alphabet has no other characters."""
_READ: Final = frozenset({"ConfigMap", "Secret"})


def is_configuration(ref: ObjectRef) -> bool:
    """Whether an object is a ConfigMap or a Secret, which Pods read."""
    return not ref.group and ref.kind in _READ


def is_generated(ref: ObjectRef) -> bool:
    """Whether an object is a ConfigMap or Secret with the hash of its content in its name."""
    return is_configuration(ref) and bool(_GENERATED.search(ref.name))


def family(ref: ObjectRef) -> ObjectRef:
    """Return the ref without the hash suffix that a generator appends to a name."""
    return ref._replace(name=_HASH.sub("", ref.name))


def predecessors(steps: Iterable[Change]) -> dict[ObjectRef, Manifest]:
    """
    Return the pruned objects by family: an object that a generator creates under a new name replaces one of them.

    It is the newest one where earlier ones were kept.
    """
    pruned = [step.live for step in steps if step.action is Action.PRUNE and step.live is not None]
    return {family(ref_of(live)): live for live in sorted(pruned, key=_created)}


def paired(step: Change, predecessor: Manifest | None, schema_of: SchemaOf) -> Change:
    """Return the step that creates a generated object with its differences from the one it follows."""
    if step.action is not Action.CREATE or step.desired is None or predecessor is None:
        return step
    follows = ref_of(predecessor)
    if not (_GENERATED.search(follows.name) and _GENERATED.search(step.ref.name)):
        return step
    differences = compare_objects(step.desired, predecessor, schema_of(step.desired)).differences
    mark = "/metadata/annotations/" + TRACKING_ID.replace("/", "~1")  # it names the object, so it always differs
    return replace(step, follows=follows, differences=tuple(item for item in differences if item.pointer != mark))


def retained(
    app: Application, steps: Iterable[Change], readers: Mapping[ObjectRef, str], *, is_late: bool
) -> list[Change]:
    """
    Return the steps, without the prunes of generated objects that are kept for now.

    Those stay that something reads (``readers`` names it), and of each name the newest ``sync.keepGenerated``; also
    other ConfigMaps and Secrets that are to be pruned last, while something reads them. A prune is a leftover where
    the commit that caused it was applied before (``is_late``).
    """
    changes = list(steps)
    # a deleted Application has no rollouts that are to succeed
    if app.is_deleted or all(step.action is not Action.PRUNE for step in changes):
        return changes
    spared = _newest(changes, app.sync.keep_generated)
    return [_retained(step, readers.get(step.ref, ""), step.ref in spared, is_late=is_late) for step in changes]


def _retained(step: Change, reader: str, is_spared: bool, *, is_late: bool) -> Change:
    if step.action is not Action.PRUNE:
        return step
    is_last = step.options.prune_last and is_configuration(step.ref)
    if not (is_last or is_generated(step.ref)):
        return step
    if reader:
        return replace(step, action=Action.NOTHING, reason=f"kept: {reader}; it is deleted afterwards")
    if is_spared:
        return replace(step, action=Action.NOTHING, reason="kept: sync.keepGenerated keeps it for a rollback")
    return replace(step, is_leftover=is_late)


def _newest(steps: Iterable[Change], count: int) -> frozenset[ObjectRef]:
    """Return the newest generated objects that would be pruned, as many of each family."""
    families: dict[ObjectRef, list[Manifest]] = {}
    for step in steps:
        if count and step.action is Action.PRUNE and step.live is not None and is_generated(step.ref):
            families.setdefault(family(step.ref), []).append(step.live)
    return frozenset(ref_of(live) for kept in families.values() for live in sorted(kept, key=_created)[-count:])


def _created(live: Manifest) -> tuple[str, str]:
    metadata = metadata_of(live)
    # the name too: two of one second have one order
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name"))


def read_by(part: Manifest) -> Iterator[tuple[ObjectRef, str]]:
    """
    Yield the ConfigMaps and Secrets that a live Pod reads, or those of a ReplicaSet or its like, and who reads them.

    What runs no Pods, or has ended, reads nothing.
    """
    is_running = is_current(part) and at(part, "spec", "replicas", default=1) != 0
    if is_running:
        who = ref_of(part)
        yield from (
            (ref, f"{who.kind} {who.name} reads it") for ref in needs_of(part, who, ()) if is_configuration(ref)
        )
