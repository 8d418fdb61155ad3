"""The status of a MultiAgentSystem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitsync.agents.model.system import System
from gitsync.agents.status import RECONCILING, STALLED, held_message
from gitsync.errors import counted
from gitsync.objects.conditions import READY, Condition, find_condition, set_conditions
from gitsync.objects.manifest import Manifest, metadata_of


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member and its Agent as it is; ``live`` is None where there is none, ``is_current``: it has the wanted spec."""

    name: str
    agent: str
    is_optional: bool
    live: Manifest | None
    is_current: bool = True
    permitted: str = ""
    """The digests of the specs that the Agent may have, see ``agents.permits``; empty where none is known."""

    @property
    def is_ready(self) -> bool:
        """Whether the Agent has the wanted spec and is ready with it; a suspended one counts as ready."""
        return self.is_current and self.is_serving

    @property
    def is_serving(self) -> bool:
        """Whether the Agent is ready at its newest generation."""
        condition = find_condition(self._status, READY)
        # also the generation: the status of an older spec may still be ready
        is_ready = condition.get("status") == "True" or condition.get("reason") == "Suspended"
        return self.live is not None and self.is_observed and is_ready

    @property
    def is_settled(self) -> bool:
        """Whether the Agent is ready, and no update of it is in progress: until then it may serve the old spec."""
        is_updating = find_condition(self._status, RECONCILING).get("status") == "True"
        return self.is_ready and not is_updating and not self.failure

    @property
    def is_observed(self) -> bool:
        """Whether the status is of the Agent's newest generation."""
        return bool(self._status.get("observedGeneration") == metadata_of(self.live or {}).get("generation"))

    @property
    def failure(self) -> str:
        """Why the Agent has failed, empty where it has not."""
        stalled = find_condition(self._status, STALLED)
        return str(stalled.get("message") or stalled.get("reason")) if stalled.get("status") == "True" else ""

    @property
    def _status(self) -> Mapping[str, Any]:
        return (self.live or {}).get("status") or {}

    def to_status(self) -> dict[str, Any]:
        """Return what the status of the system says of the member."""
        status = self._status
        row = {
            "name": self.name,
            "agent": self.agent,
            "phase": status.get("phase", "Pending" if self.live else "Missing"),
            "ready": self.is_ready,
            "readyReplicas": status.get("readyReplicas", 0),
            "replicas": status.get("replicas", 0),
            "observedGeneration": status.get("observedGeneration", 0),
            "message": self.failure,
            "permitted": self.permitted,
        }
        return {key: value for key, value in row.items() if value != ""}


@dataclass(frozen=True, slots=True)
class SystemSituation:
    """
    What the status of a system is computed from; ``wave`` is the one that is written now, from 1.

    ``last_good`` and ``failed`` are revisions of the members' specs, ``returned`` is why the failed one was given up.
    """

    system: System
    waves: tuple[tuple[str, ...], ...]
    members: Mapping[str, MemberState]
    wave: int
    since: str
    is_late: bool = False
    failure: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    last_good: str = ""
    failed: str = ""
    returned: str = ""


def system_status(situation: SystemSituation, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status; an unchanged situation gives an equal one, whatever the time."""
    members = list(situation.members.values())
    conditions = _conditions(situation)
    ready = sum(member.is_ready for member in members)
    status = {
        # a generation counts as observed once its plan may run
        "observedGeneration": previous.get("observedGeneration", 0) if situation.plan else situation.system.generation,
        "plan": dict(situation.plan),
        "phase": _phase(situation, conditions),
        "ready": f"{ready}/{len(members)}",
        "totalAgents": len(members),
        "readyAgents": ready,
        "waves": [list(wave) for wave in situation.waves],
        "currentWave": situation.wave,
        "waveSince": situation.since,
        "url": situation.url,
        "lastGoodRevision": situation.last_good,
        "failedRevision": situation.failed,
        "failure": situation.returned,
        "members": [member.to_status() for member in members],
        "channels": _channels(situation),
        "conditions": set_conditions(previous.get("conditions") or (), conditions, situation.system.generation, now),
    }
    return {name: value for name, value in status.items() if value not in ("", [], {})}


def _conditions(situation: SystemSituation) -> tuple[Condition, ...]:
    members = list(situation.members.values())
    missing = [member for member in members if not member.is_ready]
    channels = _channels(situation)
    silent = [channel["name"] for channel in channels if not channel["ready"]]
    stalled = _stalled(situation)
    total = f"{len(members) - len(missing)} of {len(members)} agents are ready"
    required = [member for member in members if not member.is_optional]
    # A member that failed may serve its last good revision: that is not what the system declares.
    is_over = all(member.is_ready and not member.failure for member in required)
    reconciling = Condition(RECONCILING, "False", "Done")
    if situation.plan:
        reconciling = Condition(RECONCILING, "True", "AwaitingApproval", held_message(situation.plan))
    elif stalled.status == "False" and not all(member.is_settled for member in members):
        waiting = ", ".join(member.name for member in members if not member.is_settled)
        reconciling = Condition(RECONCILING, "True", "Progressing", f"wave {situation.wave} waits for {waiting}")
    return (
        Condition(
            "TopologyValid",
            "True",
            "Acyclic",
            f"{counted(len(members), 'agent')} in {counted(len(situation.waves), 'wave')}",
        ),
        Condition("ChannelsReady", str(not silent), "Waiting" if silent else "AllReachable", ", ".join(silent)),
        reconciling,
        stalled,
        Condition(READY, str(is_over), "AllMembersReady" if is_over and not missing else "MembersNotReady", total),
    )


def _stalled(situation: SystemSituation) -> Condition:
    failed = [f"{member.name}: {member.failure}" for member in situation.members.values() if member.failure]
    if situation.failure:
        return Condition(STALLED, "True", "WriteFailed", situation.failure)
    if situation.failed:
        message = f"{situation.returned}; members have their specs of {situation.last_good} until the spec changes"
        return Condition(STALLED, "True", "RolledBack", message)
    if failed:
        return Condition(STALLED, "True", "MemberFailed", "; ".join(failed))
    if situation.is_late:
        return Condition(STALLED, "True", "WaveTimeout", f"wave {situation.wave} did not become ready in time")
    return Condition(STALLED, "False", "Progressing")


def _phase(situation: SystemSituation, conditions: Sequence[Condition]) -> str:
    status = {condition.type: condition.status for condition in conditions}
    members = situation.members.values()
    # suspended first: its members are ready without replicas
    if situation.system.spec.suspend:
        return "Suspended"
    if status[READY] == "True":
        return "Running" if not situation.failed and all(member.is_ready for member in members) else "Degraded"
    if status[STALLED] == "True":
        return "Failed"
    return "Updating" if any(member.is_ready for member in members) else "Pending"


def _channels(situation: SystemSituation) -> list[dict[str, Any]]:
    """Return for each channel whether all of its ends are ready."""
    rows: list[dict[str, Any]] = []
    for channel in situation.system.spec.channels:
        ends = {name for name in (*channel.from_, *channel.to) if not situation.members[name].is_ready}
        rows.append({"name": channel.name, "ready": not ends})
        if ends:
            rows[-1]["message"] = f"not ready: {', '.join(sorted(ends))}"
    return rows
