"""
The state of each object that was applied last: a user or the policy permitted it, so a repair may restore it.

The inventory keeps a digest of it. The manifest itself is what Git declares now, what is remembered, or what the last
applied commit renders to, whichever has the digest; where none has, nothing is known of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsync.objects.application import Application, IgnoreRule
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.ignored_fields import applies_to
from gitsync.plan.mask import is_secret, mask

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
    they are removed. Of a Secret the digest holds the origin instead of the values: users who may read the inventory,
    but no Secrets, could try passwords against a digest of them.
    """
    ref = ref_of(manifest)
    matching = [rule.model_dump(mode="json") for rule in rules if applies_to(rule, ref)]
    content = [mask(manifest), origin] if is_secret(ref) else [manifest]
    return content_hash([*content, matching])[:_LENGTH]


class AppliedStates:
    """What is known of the objects that one Application applied last; losing it costs a render after a restart."""

    def __init__(self) -> None:
        self._manifests: dict[ObjectRef, tuple[str, Manifest]] = {}
        self._digests: dict[ObjectRef, tuple[Manifest, str, tuple[IgnoreRule, ...], str]] = {}

    def digest(self, app: Application, ref: ObjectRef, manifest: Manifest, origin: str) -> str:
        """Return the digest of what an Application declares, computed once for each manifest."""
        rules = app.sync.ignore
        known = self._digests.get(ref)
        # by identity: comparing large manifests costs about as much as the digest
        if known is not None and known[0] is manifest and known[1] == origin and known[2] == rules:
            return known[3]
        digest = applied_digest(manifest, origin, rules)
        self._digests[ref] = (manifest, origin, rules, digest)
        return digest

    def remember(self, ref: ObjectRef, digest: str, manifest: Manifest) -> None:
        """Keep the manifest of a state that was applied."""
        self._manifests[ref] = (digest, manifest)

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
            remembered = self._manifests.get(ref)
            if entry.applied == self.digest(app, ref, manifest, declared.origin):
                states[ref] = manifest
            elif remembered is not None and remembered[0] == entry.applied:
                states[ref] = remembered[1]
            else:
                unknown[ref] = entry.applied
        if unknown:
            applied = load_applied()
            for ref, digest in unknown.items():
                manifest = applied.objects.get(ref, {})
                if manifest and applied_digest(manifest, applied.origin, app.sync.ignore) == digest:
                    self.remember(ref, digest, manifest)
                    states[ref] = manifest
        return states
