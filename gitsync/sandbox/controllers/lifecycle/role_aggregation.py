"""ClusterRole aggregation: the rules of a role that is put together from others by their labels."""

from __future__ import annotations

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.object_meta import Key, is_deleting, key_of

_GROUP = "rbac.authorization.k8s.io"
_MANAGER = "clusterrole-aggregation-controller"


class ClusterRoles(SandboxController):
    """Apply the rules of all selected roles to each aggregated one."""

    name = "clusterrole-aggregation"
    watches = frozenset({(_GROUP, "ClusterRole")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark every aggregated role: any of them may select this one."""
        # Also after a deletion, or a change of labels that ends a selection; there are few such roles.
        for role in self.api.list(_GROUP, "ClusterRole"):
            if role.get("aggregationRule"):
                self.enqueue(key_of(role))

    def reconcile(self, key: Key) -> None:
        """Write the rules, each once, in the order of the roles' names."""
        role = self.api.get(_GROUP, "ClusterRole", *key)
        if role is None or is_deleting(role):
            return
        selectors = at(role, "aggregationRule", "clusterRoleSelectors") or ()
        rules: list[Manifest] = []
        for part in sorted(self.api.list(_GROUP, "ClusterRole"), key=key_of):
            if part["metadata"]["name"] != key[1] and any(matches(selector, labels_of(part)) for selector in selectors):
                rules += [rule for rule in part.get("rules") or () if rule not in rules]
        if selectors and rules != (role.get("rules") or []):
            applied = {
                "apiVersion": f"{_GROUP}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": key[1]},
                "rules": rules,
            }
            # Server-side apply: the controller owns the rules, so that a manifest with rules conflicts.
            self.api.apply(applied, manager=_MANAGER)
