"""Fields that others added to an object and Git does not declare: which are expected, and which a sync removes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from gitsync.merge.schema import Schema
from gitsync.objects.change import ABSENT, Difference, FieldDifference, FieldOwner
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.patterns import matches
from gitsync.plan.drift import Path, find_drift, undeclared_fields
from gitsync.plan.field_owners import CONTROL_PLANE, is_injector, is_interactive
from gitsync.plan.ignored_fields import IgnoredFields, covers_of

_KEPT: Final = ("/metadata/finalizers", "/metadata/ownerReferences")
"""Removing these deletes objects without their clean-up, or keeps them from being deleted."""


_BEHAVIOUR: Final = re.compile(
    # what a Pod runs, where its data goes, and what it may do
    r"\.(env|envFrom|command|args|workingDir|image|lifecycle|volumes|volumeMounts|volumeDevices"
    r"|containers|initContainers|ephemeralContainers|resourceClaims|imagePullSecrets|runtimeClassName"
    r"|serviceAccount|serviceAccountName|automountServiceAccountToken|securityContext|shareProcessNamespace"
    r"|hostNetwork|hostPID|hostIPC|hostUsers|hostAliases|dnsPolicy|dnsConfig|nodeName"
    # what an Agent asks, calls and reads
    r"|model|prompt|tools|network|credentials|runtime|defaults|members|agents|mcpServers|knowledge|memory"
    r")(\.|\[|$)"
)
_CONTENT: Final = re.compile(r"^\.(data|binaryData|stringData)(\.|\[|$)")
"""Members of ConfigMaps and Secrets: each may be a variable, a prompt or a configuration file of a Pod."""
_UNIONS: Final = frozenset({"f:strategy", "f:updateStrategy"})
"""Fields of which one member decides which others are valid: ``type``, and the settings of each type."""
_HANDLERS: Final = frozenset({"f:exec", "f:grpc", "f:httpGet", "f:sleep", "f:tcpSocket"})
"""The members of probes and lifecycle hooks of which one may be set."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """What the Application says of undeclared fields that others added, and the operator of their managers."""

    setting: str = "Report"
    """``Report``, ``Remove``, ``Ignore``, or empty: reported, and removed where users change what is run by them."""
    expected: tuple[str, ...] = ()
    """Patterns of field managers whose fields the policy of the operator expects."""
    interactive: tuple[str, ...] = ()
    """Patterns of managers of users besides those of ``plan.managers``."""

    def judged(self, difference: FieldDifference) -> FieldDifference:
        """Return a foreign field as ignored where the setting, the table or the operator's policy says so."""
        owners = difference.owners
        # All of them: a field that a user owns beside an injector is still reported.
        is_ignored = self.setting == "Ignore" or (owners and all(map(self._is_expected, owners)))
        return replace(difference, kind=Difference.IGNORED) if is_ignored else difference

    def removed(
        self, desired: Manifest, live: Manifest, schema: Schema | None, ignored: IgnoredFields
    ) -> tuple[FieldDifference, ...]:
        """
        Return the fields that a patch removes: none unless the setting is ``Remove``.

        Fields stay that Kubernetes or an expected manager has a part in, that belong to a subresource, or that an
        ignore rule covers.
        """
        if self.setting != "Remove":
            return ()
        covers = covers_of(ignored, desired, live, schema)
        removable = [item for item in undeclared_fields(desired, live, schema) if self.is_of_clients(item[0])]
        return tuple(
            replace(item, kind=Difference.EXTRA, desired=ABSENT) for item, path in removable if not covers(item, path)
        )

    def taken_over(
        self, state: UndeclaredState, ignored: IgnoredFields, *, is_refused: bool = False
    ) -> tuple[Path, ...]:
        """
        Return the paths of fields of users that become ours, so that the next apply removes them.

        These are fields beside which what Git declares is invalid, or all of them where the API server rejected an
        apply beside them (``is_refused``), and those that change what a Pod or an Agent does where the Application
        does not set ``undeclaredFields``.
        """
        if not self._has_users(state.live):
            return ()
        covers = covers_of(ignored, state.desired, state.live, state.schema)
        fields = [
            (item, path)
            for item, path in undeclared_fields(
                state.desired, state.live, state.schema, state.manager, with_shared=True
            )
            if self._is_of_users(item, state.manager) and not covers(item, path)
        ]
        if not fields:
            return ()
        conflicts = state.conflicting([path for _, path in fields])
        return tuple(
            path
            for item, path in fields
            if is_refused
            or path in conflicts
            or self.setting == "Remove"
            or (not self.setting and _changes_behaviour(state.live, item))
        )

    def findings(self, state: UndeclaredState, ignored: IgnoredFields) -> tuple[FieldDifference, ...]:
        """
        Return the undeclared fields that users added, which are reported, though nothing of Git differs.

        What controllers add belongs to how Kubernetes works: reporting it would hide what users add.
        """
        if self.setting == "Ignore" or not self._has_users(state.live):
            return ()
        covers = covers_of(ignored, state.desired, state.live, state.schema)
        return tuple(
            item
            for item, path in undeclared_fields(state.desired, state.live, state.schema, state.manager)
            if self._is_of_users(item, state.manager) and not covers(item, path)
        )

    def _has_users(self, live: Manifest) -> bool:
        """Whether a user is among the managers of an object, which is cheaper to tell than which fields they added."""
        for entry in metadata_of(live).get("managedFields") or ():
            if not entry.get("subresource") and is_interactive(str(entry.get("manager")), self.interactive):
                return True
        return False

    def _is_of_users(self, difference: FieldDifference, manager: str) -> bool:
        """Whether only users have a field, and the manager that applies the object at most beside them."""
        if difference.kind is not Difference.FOREIGN or difference.pointer.startswith(_KEPT):
            return False
        others = [owner for owner in difference.owners if owner.manager != manager]
        # Without others it is ours alone, or the API server's default.
        return bool(others) and all(
            is_interactive(owner.manager, self.interactive) and not owner.subresource and not self._is_expected(owner)
            for owner in others
        )

    def is_of_clients(self, difference: FieldDifference) -> bool:
        """Whether a foreign field has no owner among the controllers: of Kubernetes, known, or expected by a policy."""
        if difference.kind is not Difference.FOREIGN or difference.pointer.startswith(_KEPT):
            return False
        return not any(
            owner.subresource or owner.manager in CONTROL_PLANE or self._is_expected(owner)
            for owner in difference.owners
        )

    def _is_expected(self, owner: FieldOwner) -> bool:
        return is_injector(owner.manager) or any(matches(owner.manager, pattern) for pattern in self.expected)


def has_other_clients(live: Manifest, appliers: Collection[str], users: tuple[str, ...]) -> bool:
    """
    Whether a user or another tool that applies is among the managers of an object.

    Without one, none of its fields may become ours. Each object of each plan asks, so it is one pass over the managers.
    """
    for entry in metadata_of(live).get("managedFields") or ():
        manager = entry.get("manager")
        if manager in appliers or is_interactive(str(manager), users):
            return True
    return False


@dataclass(frozen=True, slots=True)
class UndeclaredState:
    """An object as Git declares it and as it is, and the manager that applies it."""

    desired: Manifest
    live: Manifest
    schema: Schema | None
    manager: str = FIELD_MANAGER

    def conflicting(self, paths: Collection[Path]) -> frozenset[Path]:
        """
        Return the paths of undeclared fields that make an apply of the declared ones invalid.

        A renamed item of a keyed list is one that is gone and one that is undeclared: applying the first beside the
        second repeats a name or a port. Of a union, the member that Git does not declare.
        """
        drift = find_drift(self.desired, self.live, self.schema, self.manager)
        # "k:" is an item of a keyed list: a set or an atomic list cannot repeat a name or a port.
        missing = [
            path
            for item, path in zip(drift.differences, drift.paths, strict=True)
            if item.kind is Difference.GONE and path[-1].startswith("k:")
        ]
        lists = {path[:-1] for path in missing}
        changed = {path[:-1] for path in drift.paths if path[-2:-1] and path[-2] in _UNIONS}
        handlers = {path[:-1] for path in drift.paths if path[-1] in _HANDLERS}
        return frozenset(
            path
            for path in paths
            if (path[-1].startswith("k:") and path[:-1] in lists)
            or path[:-1] in changed
            or (path[-1] in _HANDLERS and path[:-1] in handlers)
        )


def _changes_behaviour(live: Manifest, difference: FieldDifference) -> bool:
    """Whether a field decides what a Pod or an Agent runs, reads, sends or may do."""
    if live.get("kind") in ("ConfigMap", "Secret") and live.get("apiVersion") == "v1":
        return bool(_CONTENT.search(difference.path))
    return difference.path.startswith(".spec") and bool(_BEHAVIOUR.search(difference.path))


REPORT: Final = Undeclared()


def undeclared(desired: Manifest, live: Manifest, schema: Schema | None) -> tuple[FieldDifference, ...]:
    """Return the fields of a live object that Git does not declare and we do not own: shown to users, not drift."""
    return tuple(difference for difference, _ in undeclared_fields(desired, live, schema))


def removal_reason(removed: Iterable[FieldDifference]) -> str:
    """Return why a step removes fields, empty where it removes none."""
    managers = sorted({owner.manager for difference in removed for owner in difference.owners})
    return f"removes fields that {', '.join(managers)} added and Git does not declare" if managers else ""
