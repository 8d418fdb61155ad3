"""Which specs the shared children of an Agent have to satisfy: Service, NetworkPolicy, claims and rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gitsync.agents.model.agent import Agent
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Sharing:
    """
    The Agent with the spec of each revision that has Pods, or may have them again.

    What one child gives to several revisions is the union of what they need: until the last Pod of a revision is gone,
    nothing is taken from it, and a rollback finds everything as it was.
    """

    serving: Agent
    """With the spec of the revision that gets the requests."""
    target: Agent
    """With the spec of today, also where that revision failed."""
    others: Mapping[str, Agent] = field(default_factory=dict)
    """With the specs of all revisions in use, by name; also those of the two above, where they are in use."""

    @classmethod
    def of(cls, agent: Agent) -> Sharing:
        """Return that of an Agent of one revision."""
        return cls(agent, agent, {"": agent})

    @property
    def all(self) -> tuple[Agent, ...]:
        """Each Agent once, the one that serves first."""
        agents = [self.serving]
        # A list: the order decides which revision names the ports of the Service.
        agents += [agent for agent in self.others.values() if agent not in agents]
        return tuple(agents)

    def of_revision(self, name: str) -> Agent:
        """Return the Agent with the spec of a revision, with that of today where it is not known."""
        return self.others.get(name, self.target)

    def united(self, make: Callable[[Agent], list[Manifest]]) -> list[Manifest]:
        """Return the children that any of the Agents has, each as the first of them has it."""
        children: dict[tuple[str, str], Manifest] = {}
        for agent in self.all:
            for manifest in make(agent):
                # setdefault: of equal names that of the serving revision counts.
                children.setdefault((manifest["kind"], manifest["metadata"]["name"]), manifest)
        return list(children.values())


_SHARED_KINDS = frozenset({"ServiceAccount", "Role", "RoleBinding", "Lease", "PersistentVolumeClaim"})


def with_live_needs(
    children: Mapping[ObjectRef, Manifest], live: Mapping[ObjectRef, Manifest]
) -> dict[ObjectRef, Manifest]:
    """
    Return the children that still allow what the live ones do.

    For a revision whose spec is not known, such as one that an older version of gitsync kept: what it needs is among
    what it has.
    """
    widened = dict(children)
    for ref, manifest in live.items():
        if ref in children and ref.kind == "NetworkPolicy":
            widened[ref] = _with_items(children[ref], manifest, ("ingress", "egress"))
        elif ref in children and ref.kind == "Service":
            widened[ref] = _with_ports(children[ref], manifest)
    return widened


def needed_objects(children: Mapping[ObjectRef, Manifest], live: Mapping[ObjectRef, Manifest]) -> frozenset[ObjectRef]:
    """Return the live children that no known spec wants, and that a revision of unknown spec may need."""
    return frozenset(
        ref
        for ref in live.keys() - children.keys()
        if ref.kind in _SHARED_KINDS or (ref.kind == "ConfigMap" and ref.name.endswith("-card"))
    )


def _with_items(desired: Manifest, live: Manifest, members: Iterable[str]) -> Manifest:
    spec = dict(desired["spec"])
    for member in members:
        wanted = spec.get(member) or []
        # Only added: what the live object allows is never narrowed here.
        spec[member] = [*wanted, *(item for item in at(live, "spec", member, default=[]) if item not in wanted)]
    return {**desired, "spec": spec}


def _with_ports(desired: Manifest, live: Manifest) -> Manifest:
    ports = list(desired["spec"]["ports"])
    for port in at(live, "spec", "ports", default=[]):
        if all(port["port"] != wanted["port"] for wanted in ports):
            # Without the nodePort and others that the API server has assigned.
            plain = {key: port[key] for key in ("port", "targetPort", "protocol") if key in port}
            ports.append({"name": f"{port.get('name', 'port')}-{port['port']}", **plain})
    return {**desired, "spec": {**desired["spec"], "ports": ports}}
