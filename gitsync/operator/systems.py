"""Reconcile one MultiAgentSystem: its Agents wave by wave, its topology and its Service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from gitsync.agents.keys import ORDERED_DELETION
from gitsync.agents.model.system import Member, System, parse_system, spec_digest
from gitsync.agents.status import changed_status, rejected_status
from gitsync.agents.systems.expansion import entry_service, kept_revision, member_agent, port_of, system_url, topology
from gitsync.agents.systems.members import agent_name, check_members, member_spec, waves
from gitsync.agents.systems.rollout import MemberSpecs, stored_system_revision, system_rollout
from gitsync.agents.systems.status import MemberState, SystemSituation, system_status
from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import InvalidInput, Rejected
from gitsync.kube.kinds import NAMESPACE
from gitsync.kube.times import timestamp
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.child_reconciler import (
    ChildrenCache,
    ChildrenReconciler,
    Desired,
    GateInput,
    Owner,
    ReconciledChildren,
)
from gitsync.operator.kinds import AGENT, own_resource
from gitsync.operator.ownership import Ownership
from gitsync.operator.removal import without_finalizer
from gitsync.operator.reporting import EventRecorder
from gitsync.plan.tracking import controller_of
from gitsync.ports import Ports
from gitsync.sync.status.writer import StatusWriter

_RETRY = 15.0
_UNCONFIRMED = 1.0
"""Seconds until a held system is reconciled again whose Application has not stored its uid yet."""


class SystemReconciler:
    """Reconcile MultiAgentSystems, level-based."""

    def __init__(
        self,
        ports: Ports,
        child_reconciler: ChildrenReconciler,
        writes: WritesByOwner,
        statuses: StatusWriter,
        ownership: Ownership,
    ) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._child_reconciler = child_reconciler
        self._writes = writes
        self._statuses = statuses
        self._events = EventRecorder(ports.cluster)
        self._ownership = ownership

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile a system; return the seconds until the next reconcile, None when only an event can change it."""
        now = self._clock.now()
        previous = manifest.get("status") or {}
        try:
            system = parse_system(manifest)
            # A deleted system is not checked: an invalid one could never be removed.
            if not system.is_deleted:
                check_members(system)
        except InvalidInput as error:
            generation = int(metadata_of(manifest).get("generation", 0))
            stamp = timestamp(now.timestamp())
            self._write(manifest, rejected_status(generation, str(error), previous, stamp), now)
            return None
        if system.is_deleted:
            return self._delete(system, manifest, cache)
        refusal = self._ownership.refusal(manifest)
        if refusal:
            self._write(manifest, changed_status(manifest, refusal, timestamp(now.timestamp())), now)
            return _UNCONFIRMED
        # Before the Agents are written: without it they could be deleted in any order.
        if system.spec.deletion.order == "ReverseDependencies":
            self._set_finalizer(system)
        else:
            manifest = without_finalizer(self._cluster, manifest, ORDERED_DELETION, AGENTS_MANAGER)
        return self._reconcile_members(system, manifest, cache, now)

    def _reconcile_members(
        self, system: System, manifest: Manifest, cache: ChildrenCache, now: datetime
    ) -> float | None:
        previous = manifest.get("status") or {}
        rollout = self._rollout(system, manifest)
        system, order = rollout.system, waves(system)
        # Before the writes: which wave is due follows from what the Agents report now.
        members = self._members(system)
        wave = _wave(system, order, members)
        is_new = previous.get("observedGeneration") != system.generation
        desired = self._desired(rollout, order[:wave], members)
        permits = _Permits(self._statuses, manifest, desired)
        done = self._child_reconciler.reconcile(
            Owner(system.ref, system.uid, system.generation, self._ownership.manager(manifest)),
            desired,
            cache,
            GateInput(is_new),
            permits.widen,
        )
        manifest = permits.manifest
        previous = manifest.get("status") or {}
        is_same = previous.get("currentWave") == wave and not is_new
        stamp = timestamp(now.timestamp())
        since = str(previous.get("waveSince", stamp)) if is_same else stamp
        limit = system.spec.rollout.wave_timeout_seconds
        seconds_left = limit - (now - datetime.fromisoformat(since)).total_seconds()
        situation = SystemSituation(
            system,
            order,
            # Read again: the writes of this pass are in the local copies.
            permits.narrowed(self._members(system), is_allowed=not (done.held_plan or done.failure)),
            wave,
            since,
            is_late=seconds_left <= 0 and not all(member.is_settled for member in members.values()),
            failure=done.failure or "; ".join(done.conflicts),
            plan=done.held_plan,
            url=system_url(system, self._ports(system)),
            last_good=rollout.last_good,
            failed=rollout.failed,
            returned=rollout.message,
        )
        self._write(manifest, system_status(situation, previous, stamp), now)
        if done.failure or done.conflicts:
            return _RETRY
        if done.held_plan and self._ownership.is_unconfirmed(manifest):
            return _UNCONFIRMED
        # Once all are settled, only events change anything; before that, the wave may time out without one.
        return (
            seconds_left
            if seconds_left > 0 and not all(member.is_settled for member in situation.members.values())
            else None
        )

    def _rollout(self, system: System, manifest: Manifest) -> MemberSpecs:
        """Return what members are to have: what the spec declares, or what they had before it failed."""
        children = self._child_reconciler.children(system.uid, system.namespace).values()
        stored = [revision for child in children if (revision := stored_system_revision(child)) is not None]
        return system_rollout(system, manifest.get("status") or {}, stored, self._members(system))

    def _desired(
        self, rollout: MemberSpecs, order: tuple[tuple[str, ...], ...], members: Mapping[str, MemberState]
    ) -> Desired:
        """Return the children; Agents of later waves, and those above the limit of a wave, stay as they are."""
        system = rollout.system
        ports = self._ports(system)
        namespace_uid = self._namespace_uid(system, members)
        kept = (kept_revision(system, manifest) for manifest in rollout.kept)
        objects = {
            ref_of(manifest): manifest for manifest in (topology(system, ports), *entry_service(system, ports), *kept)
        }
        due = {name for wave in order for name in wave}
        # Members that are down count, whatever made them so: an update must not add to them.
        unavailable = sum(member.live is not None and not member.is_serving for member in members.values())
        frozen = set()
        for member in system.spec.agents:
            if member.template is None:
                continue
            agent = member_agent(system, member, namespace_uid)
            state = members[member.name]
            live = state.live
            is_update = state.is_serving and not state.is_current
            if is_update and unavailable >= system.spec.rollout.max_unavailable_agents:
                frozen.add(ref_of(agent))
            elif is_update and member.name in due:
                unavailable += 1
            if member.name not in due:
                frozen.add(ref_of(agent))
            # One of a later wave that exists has to stay among the children, or it would be deleted.
            if live is not None or member.name in due:
                objects[ref_of(agent)] = agent
        return Desired(objects, frozenset(frozen & objects.keys()))

    def _delete(self, system: System, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Delete the Agents, those first on which none depends, then the finalizer."""
        if ORDERED_DELETION not in system.finalizers:
            return None
        members = self._members(system)
        owned = {
            member.name: live
            for member in system.spec.agents
            if member.template is not None
            and (live := members[member.name].live) is not None
            # Another object of the name is not deleted, and must not hold the finalizer for good.
            and controller_of(live) == system.uid
        }
        order = waves(system)
        if system.spec.deletion.cascade == "Background":
            # Background does not wait between the waves: all are deleted in one.
            order = (tuple(owned),)
        last = next((index for index in range(len(order) - 1, -1, -1) if owned.keys() & set(order[index])), None)
        if last is None:
            # The last chance to audit the outcomes of its writes: without the finalizer the system is gone.
            self._writes.of(str(OwnerKey.of_ref(system.ref))).conclude()
            without_finalizer(self._cluster, manifest, ORDERED_DELETION, AGENTS_MANAGER)
            return None
        # Those of earlier waves are kept until the later ones, which depend on them, are gone.
        kept = {name for wave in order[:last] for name in wave}
        agents = [
            member_agent(system, member)
            for member in system.spec.agents
            if member.name in kept and member.name in owned
        ]
        objects = {ref_of(member): member for member in agents}
        # By name: a foreground deletion of the system removes the owner references of its members.
        expired = {ref_of(live): live for name, live in owned.items() if name not in kept}
        # In the foreground: an Agent without Pods is what its wave waits for, and their drain may take minutes.
        is_ordered = system.spec.deletion.cascade == "Foreground"
        manager = self._ownership.manager(manifest)
        owner = Owner(system.ref, system.uid, system.generation, manager, deletes_in_foreground=is_ordered)
        done = self._child_reconciler.reconcile(owner, Desired(objects, frozenset(objects), expired=expired), cache)
        return _RETRY if _is_blocked(done) else None

    def _namespace_uid(self, system: System, members: Mapping[str, MemberState]) -> str:
        """Return the uid of the system's namespace, empty where the controller may not read it."""
        for member in members.values():
            references = at(member.live, "metadata", "ownerReferences", default=[])
            uid = next((str(owner["uid"]) for owner in references if owner["kind"] == NAMESPACE.kind), "")
            if uid:
                return uid
        # With the rights of single namespaces only, members have no second owner; see ``member_agent``.
        with suppress(Rejected):
            return uid_of(self._cluster.read(ObjectRef("", NAMESPACE.kind, "", system.namespace), "v1") or {})
        return ""

    def _members(self, system: System) -> dict[str, MemberState]:
        return {member.name: self._member(system, member) for member in system.spec.agents}

    def _member(self, system: System, member: Member) -> MemberState:
        live = self._agent(system, member)
        is_outdated = live is not None and member.template is not None
        is_outdated = is_outdated and _differs(member_agent(system, member)["spec"], (live or {}).get("spec"))
        return MemberState(member.name, agent_name(system, member), member.optional, live, not is_outdated)

    def _agent(self, system: System, member: Member) -> Manifest | None:
        resource = own_resource(self._cluster, AGENT)
        name = agent_name(system, member)
        return self._live.get(resource, system.namespace, name) if resource is not None else None

    def _ports(self, system: System) -> dict[str, int]:
        """Return the ports of the members' Agents, by name."""
        ports = {}
        for member in system.spec.agents:
            live = self._agent(system, member) or {}
            # A member that another file declares has its port in its own spec.
            spec = member_spec(system, member) if member.template else live.get("spec") or {}
            ports[agent_name(system, member)] = port_of(spec)
        return ports

    def _set_finalizer(self, system: System) -> None:
        if ORDERED_DELETION in system.finalizers:
            return
        ref = system.ref
        metadata = {"name": ref.name, "namespace": ref.namespace, "finalizers": [ORDERED_DELETION]}
        manifest = {"apiVersion": f"{ref.group}/v1alpha1", "kind": ref.kind, "metadata": metadata}
        self._cluster.apply(manifest, manager=AGENTS_MANAGER)

    def _write(self, manifest: Manifest, status: dict[str, Any], now: datetime) -> None:
        if status != (manifest.get("status") or {}):
            self._events.record(manifest, status, now)
            self._statuses.write(manifest, status)


class _Permits:
    """
    The specs that the Agents of a system may have, in its status: stored before they are written.

    The operator carries out no other spec of a member; see ``Ownership.refusal``.
    """

    def __init__(self, statuses: StatusWriter, manifest: Manifest, desired: Desired) -> None:
        self.manifest = manifest
        self._statuses = statuses
        agents = (ref for ref in desired.objects if ref.of == AGENT and ref not in desired.frozen)
        self._declared = {ref.name: spec_digest(desired.objects[ref]) for ref in agents}
        self._stored = {
            str(row.get("agent")): str(row.get("permitted", ""))
            for row in at(manifest, "status", "members", default=[])
        }

    def widen(self, refs: Collection[ObjectRef]) -> None:
        """Store that some Agents may have the specs that they are about to get, beside those that they have."""
        for ref in refs:
            if ref.of == AGENT and ref.name in self._declared:
                self._stored[ref.name] = _with(self._stored.get(ref.name, ""), self._declared[ref.name])
        status = self.manifest.get("status") or {}
        known = {str(row.get("agent")): row for row in status.get("members") or ()}
        rows = [{**known.get(name, {"agent": name}), "permitted": digests} for name, digests in self._stored.items()]
        self.manifest = self._statuses.write(self.manifest, {**status, "members": rows})

    def narrowed(self, members: Mapping[str, MemberState], *, is_allowed: bool) -> dict[str, MemberState]:
        """Return the members with what they may have now: the old spec as long as the Agent has it."""
        return {
            name: replace(member, permitted=self._digests(member, is_allowed=is_allowed))
            for name, member in members.items()
        }

    def _digests(self, member: MemberState, *, is_allowed: bool) -> str:
        stored = self._stored.get(member.agent, "")
        declared = self._declared.get(member.agent, "")
        # A plan that is held permits nothing, also where a user edited the Agent to what it would write.
        if not declared or not is_allowed:
            return stored
        live = spec_digest(member.live) if member.live is not None else ""
        return _with(live if live in stored.split() else "", declared)


def _with(digests: str, digest: str) -> str:
    return " ".join(dict.fromkeys(filter(None, (*digests.split(), digest))))


def _wave(system: System, order: tuple[tuple[str, ...], ...], members: Mapping[str, MemberState]) -> int:
    """Return the number of waves that are written: one more than are ready."""
    if system.spec.rollout.order == "Parallel":
        return len(order)
    ignores = system.spec.rollout.on_failure == "Continue"
    for index, wave in enumerate(order):
        states = [members[name] for name in wave]
        # A member that failed must not hold the later waves where the user wants to continue, or does not need it.
        if any(not state.is_settled and not ((ignores or state.is_optional) and state.failure) for state in states):
            return index + 1
    return len(order)


def _differs(wanted: Any, live: Any) -> bool:
    """Whether a live value lacks something of a wanted one; members that the API server added do not count."""
    # Defaults are filled in by the API server, so that a comparison for equality would never end.
    if isinstance(wanted, dict) and isinstance(live, dict):
        return any(_differs(value, live.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return any(_differs(*pair) for pair in zip(wanted, live, strict=True))
    return bool(wanted != live)


def _is_blocked(done: ReconciledChildren) -> bool:
    return bool(done.failure)
