"""Fields that others added to an object and Git does not declare: which are expected, and which a sync removes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gitsync.merge.schema import Schema
from gitsync.objects.change import ABSENT, Difference, FieldDifference, FieldOwner
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.objects.patterns import matches
from gitsync.plan.drift import undeclared_fields
from gitsync.plan.ignored_fields import IgnoredFields, covers

_CONTROL_PLANE: Final = frozenset(
    {
        "cloud-controller-manager",
        "k0s",
        "k3s",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kubelite",
        "rke2",
        FIELD_MANAGER,  # under this name the API server records what an admission webhook adds to our writes
    }
)
"""Field managers of Kubernetes itself; k3s, k0s, rke2 and MicroK8s (kubelite) run all of it in one process."""
_KEPT: Final = ("/metadata/finalizers", "/metadata/ownerReferences")
"""Removing these deletes objects without their clean-up, or keeps them from being deleted."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """
    What the Application says of undeclared fields that others added: ``Report``, ``Remove`` or ``Ignore``.

    ``expected`` are patterns of the field managers whose fields the operator's policy expects.
    """

    setting: str = "Report"
    expected: tuple[str, ...] = ()

    def judged(self, difference: FieldDifference) -> FieldDifference:
        """Return a foreign field as ignored where the setting or the operator's policy says so."""
        is_ignored = self.setting == "Ignore" or (difference.owners and all(map(self._is_expected, difference.owners)))
        return replace(difference, kind=Difference.IGNORED) if is_ignored else difference

    def removed(
        self, desired: Manifest, live: Manifest, schema: Schema | None, ignored: IgnoredFields
    ) -> tuple[FieldDifference, ...]:
        """
        Return the fields that a sync removes: none unless the setting is ``Remove``.

        Fields stay that Kubernetes or an expected manager has a part in, that belong to a subresource, or that an
        ignore rule covers.
        """
        if self.setting != "Remove":
            return ()
        removable = [item for item in undeclared_fields(desired, live, schema) if self._is_removable(item[0])]
        return tuple(
            replace(item, kind=Difference.EXTRA, desired=ABSENT)
            for item, path in removable
            if not covers(ignored, desired, live, item, path)
        )

    def _is_removable(self, difference: FieldDifference) -> bool:
        if difference.kind is not Difference.FOREIGN or difference.pointer.startswith(_KEPT):
            return False
        return not any(
            owner.subresource or owner.manager in _CONTROL_PLANE or self._is_expected(owner)
            for owner in difference.owners
        )

    def _is_expected(self, owner: FieldOwner) -> bool:
        return any(matches(owner.manager, pattern) for pattern in self.expected)


REPORT: Final = Undeclared()


def undeclared(desired: Manifest, live: Manifest, schema: Schema | None) -> tuple[FieldDifference, ...]:
    """Return the fields of a live object that Git does not declare and we do not own: shown to users, not drift."""
    return tuple(difference for difference, _ in undeclared_fields(desired, live, schema))


def removal_reason(removed: Iterable[FieldDifference]) -> str:
    """Return why a step removes fields, empty where it removes none."""
    managers = sorted({owner.manager for difference in removed for owner in difference.owners})
    return f"removes fields that {', '.join(managers)} added and Git does not declare" if managers else ""
