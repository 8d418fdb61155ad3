"""Compare the Applications of a set with those that exist: what to create, update and delete, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.applicationsets.expand import Expansion, Generated
from gitsync.applicationsets.model import ApplicationSet
from gitsync.objects.keys import PINNED_FROM, SUSPEND_MANAGER, TEMPLATE_HASH
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, metadata_of, uid_of
from gitsync.plan.tracking import controller_of

_UPDATES = ("create-update", "sync")
_DELETES = ("create-delete", "sync")


@dataclass(frozen=True, slots=True)
class HeldDeletions:
    """Deletions that wait for an approval: their id, which Applications, and why."""

    id: str
    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """
    What to do with the Applications of a set, by name.

    ``taken`` are names of Applications that are not the set's, ``outdated`` and ``kept`` those that
    ``applicationsSync`` leaves as they are, ``leaving`` those that are being deleted.
    """

    creates: Mapping[str, Manifest]
    updates: Mapping[str, Manifest]
    deletes: Mapping[str, Manifest]
    held: HeldDeletions | None = None
    taken: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


def changes(application_set: ApplicationSet, expansion: Expansion, live: Mapping[str, Manifest]) -> Changes:
    """
    Return what brings the Applications of the namespace, by name, to what a set yields.

    An Application that is not the set's is never changed. Deletions above the limits wait; nothing else does.
    """
    policy = application_set.spec.sync_policy.applications_sync
    desired = expansion.applications
    owned = {
        name: application
        for name, application in live.items()
        # without a uid nothing is the set's: an empty one would be equal to that of every orphan
        if application_set.uid and controller_of(application) == application_set.uid
    }
    # neither updated nor deleted again, and its name is not free yet
    leaving = {name for name, application in owned.items() if metadata_of(application).get("deletionTimestamp")}
    present = {name: application for name, application in owned.items() if name not in leaving}
    updates = {
        name: changed
        for name, application in desired.items()
        if name in present and (changed := _changed(application, present[name])) is not None
    }
    gone = {name: present[name] for name in sorted(present.keys() - desired.keys())}
    # a policy that deletes nothing has nothing to hold
    held = _held(application_set, expansion, gone, len(present)) if policy in _DELETES else None
    return Changes(
        creates={name: application.manifest for name, application in desired.items() if name not in live},
        updates=updates if policy in _UPDATES else {},
        deletes=gone if policy in _DELETES and held is None else {},
        held=held,
        taken=tuple(name for name in desired if name in live and name not in owned),
        outdated=() if policy in _UPDATES else tuple(updates),
        kept=() if policy in _DELETES else tuple(gone),
        leaving=tuple(sorted(leaving)),
    )


def _held(
    application_set: ApplicationSet, expansion: Expansion, gone: Mapping[str, Manifest], count: int
) -> HeldDeletions | None:
    """Return the deletions where they need an approval that the set does not carry."""
    reason = _reason(application_set, expansion, len(gone), count)
    if not gone or not reason:
        return None
    # the uids are part of it: an approval must not cover an Application that was recreated under the name
    digest = content_hash(sorted((name, uid_of(application)) for name, application in gone.items()))[:12]
    return None if application_set.approved == digest else HeldDeletions(digest, tuple(gone), reason)


def _reason(application_set: ApplicationSet, expansion: Expansion, deletes: int, count: int) -> str:
    """Return why deletions need an approval, empty where they do not."""
    limit = application_set.spec.sync_policy.max_delete_percent
    # a generator that yields nothing is more often a mistake in a pattern than a decision
    if expansion.empty:
        return f"{', '.join(expansion.empty)} yields nothing"
    # before the share: with one Application each deletion is one of all
    if deletes == count:
        return f"all {count} Applications would be deleted"
    # multiplied instead of divided: no rounding at the limit
    if deletes * 100 > limit * count:
        return f"{deletes} of {count} Applications would be deleted, more than maxDeletePercent ({limit})"
    return ""


def _changed(wanted: Generated, live: Manifest) -> Manifest | None:
    """Return what to apply where a live Application differs; fields that users set through gitsync stay."""
    desired = _without_users_fields(wanted.manifest, live)
    # the hash first: it tells another template or element without a comparison of the fields
    is_same = annotations_of(desired)[TEMPLATE_HASH] == annotations_of(live).get(TEMPLATE_HASH)
    return None if is_same and not _lacks(live, desired) else desired


def _without_users_fields(manifest: Manifest, live: Manifest) -> Manifest:
    spec = manifest["spec"]
    if _is_suspended_or_resumed(live):
        # a user suspends during an incident, and the set must not resume what it generated
        spec = _without(spec, ("suspend",))
    if PINNED_FROM in annotations_of(live):
        # a pin is a rollback by a user, which the revision of the template would undo
        spec = _without(spec, ("source", "revision"))
    return {**manifest, "spec": spec}


def _is_suspended_or_resumed(live: Manifest) -> bool:
    """Whether a user has set ``spec.suspend``."""
    # by the field manager: the value alone does not tell who has set it
    entries = metadata_of(live).get("managedFields") or ()
    fields = (fields_set.get("fieldsV1") for fields_set in entries if fields_set.get("manager") == SUSPEND_MANAGER)
    return any(at(fields_set, "f:spec", "f:suspend") is not None for fields_set in fields)


def _without(spec: Manifest, path: tuple[str, ...]) -> Manifest:
    name = path[0]
    rest = path[1:]
    if name not in spec:
        return spec
    if not rest:
        return {key: value for key, value in spec.items() if key != name}
    return {**spec, name: _without(spec[name], rest)}


def _lacks(live: Any, wanted: Any) -> bool:
    """
    Whether a live value lacks something of a wanted one; members that others added do not count.

    Neither do owner references, which others may add: ours is there, or the Application would not be the set's.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        return any(_lacks(live.get(name), value) for name, value in wanted.items() if name != "ownerReferences")
    # lists of other lengths differ, and fall through to the comparison
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return any(_lacks(*pair) for pair in zip(live, wanted, strict=True))
    return bool(wanted != live)
