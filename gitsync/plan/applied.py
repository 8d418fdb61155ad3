"""
The state of each object that was applied last: a user or the policy permitted it, so a repair may restore it.

The inventory keeps a digest of it. The manifest itself is what Git declares now, what is remembered, or what the last
applied commit renders to, whichever has the digest; where none has, nothing is known of the object.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gitsync.objects.application import Application, IgnoreRule
from gitsync.objects.holds import held_fields
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.ignored_fields import IgnoredFields, applies_to
from gitsync.plan.mask import is_secret, mask
from gitsync.plan.options import options_of

_LENGTH = 40
"""Hexadecimal digits of a digest, as many as a Git id has: an author must not find another manifest that has it."""

LoadDeclared = Callable[[], "Declared"]
"""Return what the last applied commit declares, nothing where that cannot be rendered any more."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a commit declares; ``origin`` names the commit, and those of the other repositories that it reads."""

    objects: Mapping[ObjectRef, Manifest]
    origin: str


def applied_digest(manifest: Manifest, origin: str, rules: tuple[IgnoreRule, ...] = ()) -> str:
    """
    Return the digest of a manifest as it is applied under some ignore rules.

    The rules are part of it: a field that they left to others was never applied, and must not become a repair when
    they are removed. Of a Secret, and of masked fields, the digest holds the origin instead
    of the values: users who may read the inventory, but no Secrets, could try passwords against a digest of them.
    """
    ref = ref_of(manifest)
    matching = [rule.model_dump(mode="json") for rule in rules if applies_to(rule, ref)]
    shown = mask(manifest)
    # the identical one where nothing is masked
    content = [shown, origin] if is_secret(ref) or shown is not manifest else [manifest]
    return content_hash([*content, matching])[:_LENGTH]


NOTHING = Declared({}, "")


@dataclass(frozen=True, slots=True)
class _AppliedState:
    """
    What was applied last of an object, with its digest.

    ``rules`` are the ignore rules, and ``held`` the fields, beside which it was applied: what they left to others
    was not.
    """

    digest: str
    manifest: Manifest
    rules: tuple[IgnoreRule, ...]
    held: frozenset[str] = frozenset()

    def is_complete_for(self, app: Application, ref: ObjectRef) -> bool:
        """Whether nothing that an Application declares now was left to others then."""
        return self.rules == app.sync.ignore and self.held <= held_fields(app.holds, ref)


class AppliedStates:
    """
    The states that one Application applied last, by object.

    What is remembered precedes the inventory, which gets it with the next status. Losing it costs a render of the
    applied commit after a restart.
    """

    def __init__(self, spec_digest: Callable[[Manifest], str] = lambda manifest: "") -> None:
        """Use ``spec_digest`` for the specs that gitsync itself carries out; it is empty for other kinds."""
        self._spec_digest = spec_digest
        self._permitted: dict[ObjectRef, str] = {}
        self._states: dict[ObjectRef, _AppliedState] = {}
        self._digests: dict[ObjectRef, tuple[Manifest, str, tuple[IgnoreRule, ...], str]] = {}
        self._settled: tuple[object, ...] | None = None
        self._being_written: set[ObjectRef] = set()

    def begin(self, refs: Iterable[ObjectRef]) -> None:
        """Note that a sync writes objects: until it is known what became of them, so are not their states."""
        self._being_written.update(refs)

    def abandon(self, ref: ObjectRef) -> None:
        """Note that the write of an object was not carried out: its state is the one before."""
        self._being_written.discard(ref)

    def record(self, app: Application, ref: ObjectRef, manifest: Manifest, origin: str) -> None:
        """
        Remember that a state was applied completely; it was permitted.

        While a field of it is held, only the same state as before counts as applied completely: of another one, the
        held field was not, and must not become a repair when the hold ends.
        """
        digest = self._digest(app, ref, manifest, origin)
        held = held_fields(app.holds, ref)
        known = self._states.get(ref)
        if held and known is not None and known.digest == digest:
            held = frozenset()
        self._states[ref] = _AppliedState(_digest_beside(held, digest), manifest, app.sync.ignore, held)
        self._permitted[ref] = self.permitted(app, manifest)
        self._being_written.discard(ref)

    def permitted(self, app: Application, manifest: Manifest) -> str:
        """
        Return the digest of a spec that gitsync may carry out as it is declared, empty where it may be another one.

        That is so where the Application leaves fields of it to others.
        """
        digest = self._spec_digest(manifest)
        if not digest or app.sync.undeclared_fields in ("Report", "Ignore"):
            return ""
        ref = ref_of(manifest)
        ignored = IgnoredFields.of(app, ref, options_of(manifest))
        return "" if ignored.pointers or ignored.held or ignored.rules_for(ref) else digest

    def record_all(self, app: Application, declared: Declared, refs: Iterable[ObjectRef], inventory: Inventory) -> None:
        """Remember that objects are as a commit declares them that was applied completely."""
        inputs = (declared.objects, declared.origin, app.sync.ignore, app.holds, inventory)
        if self._settled is not None and all(map(operator.is_, inputs, self._settled)):
            return  # most reconciles change nothing, and an Application may have 10,000 objects
        for ref in refs:
            if ref in inventory:
                self.record(app, ref, declared.objects[ref], declared.origin)
        self._settled = inputs

    def follow(self, inventory: Inventory) -> None:
        """Forget the states of objects of which an inventory has another: another replica has applied that since."""
        entries = inventory.entries
        self._states = {
            ref: state for ref, state in self._states.items() if ref in entries and entries[ref].applied == state.digest
        }

    def stamped(self, inventory: Inventory) -> Inventory:
        """Return the inventory with the digests of what is remembered, the identical one where it has them."""
        # an object that left the inventory was deleted or released: to apply it again is a change
        self._states = {ref: state for ref, state in self._states.items() if ref in inventory}
        # names with a hash of their content are new with every commit
        self._permitted = {ref: digest for ref, digest in self._permitted.items() if ref in inventory}
        self._digests = {ref: known for ref, known in self._digests.items() if ref in inventory}
        entries = {
            ref: inventory.entries[ref]._replace(applied=state.digest, permitted=self._permitted.get(ref, ""))
            for ref, state in self._states.items()
            if ref not in self._being_written
            and (inventory.entries[ref].applied, inventory.entries[ref].permitted)
            != (state.digest, self._permitted.get(ref, inventory.entries[ref].permitted))
        }
        # the old digest would have a repair after a restart undo what the sync has written
        entries |= {
            ref: inventory.entries[ref]._replace(applied="")
            for ref in self._being_written
            if ref in inventory and inventory.entries[ref].applied
        }
        return inventory.with_entries(entries) if entries else inventory

    def find(
        self, app: Application, declared: Declared, inventory: Inventory, load_applied: LoadDeclared
    ) -> dict[ObjectRef, Manifest]:
        """
        Return the manifests that were applied last of the declared objects, where they are known.

        Those that Git still declares are the identical manifests. The applied commit is loaded only where it may have
        one that is needed.
        """
        states: dict[ObjectRef, Manifest] = {}
        unknown: dict[ObjectRef, str] = {}
        for ref, manifest in declared.objects.items():
            entry = inventory.entries.get(ref)
            if entry is None or not entry.applied:
                continue
            # What Git declares comes first: the identical manifest spares the planner a comparison.
            if not app.holds and entry.applied == self._digest(app, ref, manifest, declared.origin):
                states[ref] = manifest
                continue
            state = self._matching(app, ref, manifest, declared.origin, entry.applied)
            remembered = self._states.get(ref)
            if state is not None:
                states[ref] = manifest
                if held_fields(app.holds, ref):
                    # a restart forgets it, and ``record`` has to know whether all of it was applied
                    self._states[ref] = state
            elif ref in self._being_written:
                continue  # a repair to the state before could undo the write of our own sync
            elif remembered is not None and remembered.digest == entry.applied and remembered.is_complete_for(app, ref):
                states[ref] = remembered.manifest
            else:
                unknown[ref] = entry.applied
        if unknown:
            applied = load_applied()
            for ref, digest in unknown.items():
                manifest = applied.objects.get(ref, {})
                state = self._matching(app, ref, manifest, applied.origin, digest) if manifest else None
                if state is not None:
                    # the next reconcile needs no render of the applied commit
                    self._states[ref] = state
                    states[ref] = manifest
        return states

    def _matching(
        self, app: Application, ref: ObjectRef, manifest: Manifest, origin: str, applied: str
    ) -> _AppliedState | None:
        """Return the state of a manifest where a digest says that it was applied, completely or beside what is held."""
        digest = self._digest(app, ref, manifest, origin)
        for held in (frozenset[str](), held_fields(app.holds, ref)):
            if applied == _digest_beside(held, digest):
                return _AppliedState(applied, manifest, app.sync.ignore, held)
        return None

    def _digest(self, app: Application, ref: ObjectRef, manifest: Manifest, origin: str) -> str:
        """Return the digest of what an Application declares, computed once for each manifest."""
        rules = app.sync.ignore
        known = self._digests.get(ref)
        # by identity: comparing large manifests costs about as much as the digest
        if known is not None and known[0] is manifest and known[1] == origin and known[2] == rules:
            return known[3]
        digest = applied_digest(manifest, origin, rules)
        self._digests[ref] = (manifest, origin, rules, digest)
        return digest


def _digest_beside(held: frozenset[str], digest: str) -> str:
    """Return the digest of a state of which some fields were not applied, that of the state where all of it was."""
    return content_hash([digest, sorted(held)])[:_LENGTH] if held else digest
