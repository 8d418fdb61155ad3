"""Return the members of a system to the specs with which they were ready together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitsync.agents.model.system import Member, System
from gitsync.agents.systems.members import declared_spec
from gitsync.agents.systems.status import MemberState
from gitsync.objects.manifest import Manifest, at, content_hash, metadata_of

Specs = Mapping[str, Mapping[str, Any]]
_MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class SystemRevision:
    """Specs of inline members, by name, kept as an object of this name; ``number`` is their first generation."""

    name: str
    specs: Specs
    number: int


@dataclass(frozen=True, slots=True)
class MemberSpecs:
    """
    What members are to have: those of ``system``, and the revisions that are kept.

    ``last_good`` became ready as a whole; ``failed`` is that of the spec where a member failed with it, and ``message``
    says which.
    """

    system: System
    kept: tuple[SystemRevision, ...] = ()
    last_good: str = ""
    failed: str = ""
    message: str = ""


def system_rollout(
    system: System, status: Mapping[str, Any], stored: Iterable[SystemRevision], members: Mapping[str, MemberState]
) -> MemberSpecs:
    """Return what members are to have; ``members`` are compared with what the spec declares."""
    if system.spec.rollout.on_failure != "Rollback":
        return MemberSpecs(system)
    known = {member.name: member for member in stored}
    target = _revision(system)
    target = known.get(target.name, target)
    good = str(status.get("lastGoodRevision", ""))
    failed = str(status.get("failedRevision", ""))
    message = ""
    if failed == target.name:
        message = str(status.get("failure", ""))
    # All of them: a part of the members was never tried together.
    elif all(member.is_settled for member in members.values()):
        good = target.name
        failed = ""
    else:
        message = _failures(system, members)
        # Without another good set there is nothing to return to, and the failure is reported as that of its member.
        failed = target.name if message and good in known and good != target.name else ""
    kept = (target, *(known[name] for name in (good,) if name in known and name != target.name))
    returned = _with_specs(system, known[good].specs) if failed and good in known else system
    return MemberSpecs(returned, kept, good, failed, message if failed else "")


def stored_system_revision(manifest: Manifest) -> SystemRevision | None:
    """Return the revision that an object keeps, None for an object of another kind or form."""
    specs = at(manifest, "data", _MEMBERS)
    if manifest.get("kind") != "ControllerRevision" or not isinstance(specs, dict):
        return None
    return SystemRevision(str(metadata_of(manifest).get("name")), specs, int(manifest.get("revision") or 1))


def kept_data(revision: SystemRevision) -> dict[str, Any]:
    """Return the content of the object that keeps a revision."""
    return {_MEMBERS: {name: dict(spec) for name, spec in revision.specs.items()}}


def _revision(system: System) -> SystemRevision:
    specs = {member.name: declared_spec(system, member) for member in system.spec.agents if member.template}
    # Of the declared specs: a suspension must not make another revision.
    return SystemRevision(f"{system.name}-{content_hash(specs)[:10]}", specs, system.generation)


def _failures(system: System, members: Mapping[str, MemberState]) -> str:
    """Return which inline members failed with the spec that the system declares."""
    inline = [
        members[member.name] for member in system.spec.agents if member.template is not None and not member.optional
    ]
    return "; ".join(
        f"{member.name}: {member.failure}"
        for member in inline
        # Of the newest generation and the declared spec: an old failure would roll back the fix.
        if member.is_current and member.is_observed and member.failure
    )


def _with_specs(system: System, specs: Specs) -> System:
    """Return the system with these specs of its inline members; a member that had none keeps what is declared."""
    agents = tuple(_with_spec(system, member, specs) for member in system.spec.agents)
    # The specs are complete: the defaults of today must not be merged under those of then.
    return replace(system, spec=system.spec.model_copy(update={"defaults": {}, "agents": agents}))


def _with_spec(system: System, member: Member, specs: Specs) -> Member:
    if member.template is None:
        return member
    spec = dict(specs.get(member.name) or declared_spec(system, member))
    return member.model_copy(update={"template": member.template.model_copy(update={"spec": spec})})
