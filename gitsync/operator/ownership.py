"""Which Application manages an Agent or a system, and whether that applied the spec which the object has now."""

from __future__ import annotations

from gitsync.agents.model.system import spec_digest
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.operator.kinds import SYSTEM, own_resource
from gitsync.plan.tracking import controller_of, owner_of
from gitsync.ports import Cluster, LiveCache
from gitsync.state.declarations import Declarations


class Ownership:
    """
    Find managers of Agents and systems in the local copies.

    The Application is the one that declares the object in Git, else the one that its mark names: a user who may write
    the object may remove the mark. A mark alone proves nothing: every user who may write an Agent may write it. The
    inventory is in the status of the Application, which only the controller writes, and its uid is that of the object
    that was applied.
    """

    def __init__(self, cluster: Cluster, live: LiveCache, declarations: Declarations) -> None:
        self._cluster = cluster
        self._live = live
        self._declarations = declarations

    def manager(self, manifest: Manifest) -> str:
        """Return the key of the Application that applied an object, empty where none holds it."""
        key = self._named(manifest)
        entry = self._entry(key, manifest)
        # The uid is stored after the first apply: until then, and for an object of the same name, nothing is proven.
        return key if entry is not None and entry.uid and entry.uid == uid_of(manifest) else ""

    def refusal(self, manifest: Manifest) -> str:
        """
        Return why the spec of an object must not be carried out, empty where it may be.

        Its Application, or the system that it is a member of, applied another one: this one was never permitted.
        """
        if at(manifest, "metadata", "ownerReferences"):
            return self._refusal_of_member(manifest)
        key = self._named(manifest)
        entry = self._entry(key, manifest)
        # Without a digest, as in the status of an older version, no spec is known to be refused.
        if entry is None or not entry.permitted or spec_digest(manifest) in entry.permitted.split():
            return ""
        return (
            f"its spec is not what Application {key} applied, so that nothing of it is carried out; change it in Git,"
            " or let self-heal restore it"
        )

    def _refusal_of_member(self, manifest: Manifest) -> str:
        """Return why the spec of an Agent that a system controls must not be carried out, empty where it may be."""
        owners = self._live.owners(manifest)[1:2]
        system = next((owner for owner in owners if ref_of(owner).of == SYSTEM), None)
        # A user may remove the reference; the Agent is one without a manager then, which has its own gate.
        if system is None or uid_of(system) != controller_of(manifest):
            return ""
        name = metadata_of(manifest).get("name")
        rows = at(system, "status", "members", default=[])
        permitted = next((str(row.get("permitted", "")) for row in rows if row.get("agent") == name), "")
        # Without a digest, as in the status of an older version, no spec is known to be refused.
        if not permitted or spec_digest(manifest) in permitted.split():
            return ""
        return (
            f"its spec is not what {ref_of(system)} applied, so that nothing of it is carried out; change the system,"
            " which restores it"
        )

    def _named(self, manifest: Manifest) -> str:
        """Return the key of the Application that declares an object, else of the one that its mark names."""
        ref = ref_of(manifest)
        # Git first: the mark can be written by every user who may write the object.
        return self._declarations.declared_elsewhere("", [ref]).get(ref) or owner_of(manifest)

    def _entry(self, application: str, manifest: Manifest) -> InventoryEntry | None:
        """Return what the inventory of an Application has of an object; None where it does not hold it."""
        namespace, _, name = application.partition("/")
        resource = own_resource(self._cluster, APPLICATION)
        if not name or resource is None:
            return None
        live = self._live.get(resource, namespace, name) or {}
        return Inventory.from_status(live.get("status") or {}).entries.get(ref_of(manifest))

    def is_unconfirmed(self, manifest: Manifest) -> bool:
        """Whether an object names an Application whose inventory does not hold it, or not yet."""
        return bool(self._named(manifest)) and not self.manager(manifest)
