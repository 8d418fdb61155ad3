"""Which Application manages an Agent or a system: the mark on the object, confirmed by the Application's inventory."""

from __future__ import annotations

from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ref_of
from gitsync.operator.kinds import own_resource
from gitsync.plan.tracking import owner_of
from gitsync.ports import Cluster, LiveCache


class Ownership:
    """
    Find managers of Agents and systems in the local copies.

    A mark alone proves nothing: every user who may write an Agent may write it. The inventory is in the status of the
    Application, which only the controller writes, and its uid is that of the object that was applied.
    """

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live

    def manager(self, manifest: Manifest) -> str:
        """Return the key of the Application that applied an object, empty where none holds it."""
        key = owner_of(manifest)
        namespace, _, name = key.partition("/")
        resource = own_resource(self._cluster, APPLICATION)
        if not name or resource is None:
            return ""
        application = self._live.get(resource, namespace, name) or {}
        entry = Inventory.from_status(application.get("status") or {}).entries.get(ref_of(manifest))
        # The uid is stored after the first apply: until then, and for an object of the same name, nothing is proven.
        return key if entry is not None and entry.uid and entry.uid == uid_of(manifest) else ""

    def is_unconfirmed(self, manifest: Manifest) -> bool:
        """Whether an object names an Application whose inventory does not hold it, or not yet."""
        return bool(owner_of(manifest)) and not self.manager(manifest)
