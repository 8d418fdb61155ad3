"""MultiAgentSystem: Agents that work together, as one object; and the digest of the spec of either kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from gitsync.agents.model.agent import parse_agent
from gitsync.agents.model.base import HOST_AND_PORT, LocalRef, Name, Seconds, readable_url
from gitsync.agents.model.state import DatabaseSecret
from gitsync.errors import InvalidInput
from gitsync.kube.model import FreeForm, Rule, Ruled
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, content_hash, metadata_of, uid_of
from gitsync.objects.parsing import Keyed, Section, Spec, Text, parse_spec
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of

Names = Annotated[tuple[Name, ...], Field(strict=False, max_length=32)]


class MemberDependency(Section):
    """A member that has to be ready first."""

    agent: Name = Field(description="Name of the member.")
    condition: Literal["Ready", "Exists"] = Field("Ready", description="What it has to be.")


class MemberTemplate(Section):
    """An Agent that the system creates."""

    labels: Annotated[dict[str, str], Field(max_length=32)] = Field(
        default_factory=dict, description="Labels of the Agent."
    )
    spec: FreeForm = Field(description="Spec of the Agent, merged over `defaults`.")


class Member(Ruled):
    """One Agent of the system."""

    RULES = (Rule("has(self.template) != has(self.agentRef)", "set either template or agentRef"),)

    name: Name = Field(description="Name of the member, unique in the system.")
    template: MemberTemplate | None = Field(
        None, description="An Agent `<system>-<name>` that the system creates and owns."
    )
    agent_ref: LocalRef | None = Field(None, description="An Agent that is declared on its own, and only observed.")
    depends_on: Annotated[tuple[MemberDependency, ...], Field(strict=False, max_length=32), Keyed("agent")] = Field(
        (), description="Members that have to be ready first."
    )
    optional: bool = Field(False, description="True: its failure degrades the system, and does not fail it.")


class BrokerCredentials(Section):
    """How members sign in at a broker."""

    secret_ref: DatabaseSecret = Field(description="Secret with user name and password, or token.")


class Broker(Section):
    """A message broker."""

    type: Literal["NATS", "Kafka", "Redis", "RabbitMQ"] = Field(description="What the broker is.")
    url: Annotated[
        str, Field(max_length=1024, pattern=rf"^[a-z+]+://{HOST_AND_PORT}([/?#]\S*)?$"), AfterValidator(readable_url)
    ] = Field(description="Its URL, without user information.")
    credentials: BrokerCredentials | None = Field(None, description="How members sign in.")


class Channel(Ruled):
    """Who talks to whom."""

    RULES = (
        Rule(
            "(self.type in ['Queue', 'PubSub']) == has(self.broker) && has(self.broker) == has(self.topic)",
            "Queue and PubSub need broker and topic, and only they have them",
        ),
    )

    name: Name = Field(description="Name of the channel.")
    type: Literal["A2A", "HTTP", "Queue", "PubSub"] = Field(description="How members talk.")
    from_: Names = Field(alias="from", description="Members that send.", min_length=1)
    to: Names = Field(description="Members that receive.", min_length=1)
    timeout_seconds: Seconds = Field(60, description="How long an answer may take.")
    retries: Annotated[int, Field(ge=0, le=20)] = Field(0, description="Attempts after a failed one.")
    broker: Broker | None = Field(None, description="For `Queue` and `PubSub`: the broker.")
    topic: Annotated[Text, Field(max_length=256)] | None = Field(
        None, description="For `Queue` and `PubSub`: subject, topic or queue."
    )
    delivery: Literal["AtMostOnce", "AtLeastOnce"] = Field(
        "AtLeastOnce", description="For `Queue` and `PubSub`: what the broker guarantees."
    )


class Topology(Section):
    """How members work together."""

    strategy: Literal["Graph", "Sequential", "Supervisor", "RoundRobin"] = Field(
        "Graph", description="Who decides on the next member."
    )
    max_turns: Annotated[int, Field(ge=1, le=1000)] = Field(20, description="Turns after which a task ends.")


class SystemRollout(Section):
    """In which order members are created and updated."""

    order: Literal["Dependencies", "Parallel"] = Field(
        "Dependencies", description="`Dependencies`: in waves, those first on which others depend; `Parallel`: at once."
    )
    max_unavailable_agents: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="Members of a wave that are updated at a time."
    )
    on_failure: Literal["Halt", "Rollback", "Continue"] = Field(
        "Halt",
        description="`Halt`: later waves wait for a member that failed; `Continue`: they do not; `Rollback`: all inline"
        " members return to the specs with which they were ready together. The member itself returns to its last good"
        " revision, unless its `update.autoRollback` is false.",
    )
    wave_timeout_seconds: Seconds = Field(900, description="How long a wave may take.")


class SystemDeletion(Section):
    """In which order members are deleted."""

    order: Literal["ReverseDependencies", "Parallel"] = Field(
        "ReverseDependencies", description="`ReverseDependencies`: those first on which none depends."
    )
    cascade: Literal["Foreground", "Background"] = Field(
        "Foreground", description="`Foreground`: a wave waits until the Pods of the one before have ended."
    )


class SystemSpec(Ruled):
    """The spec of a MultiAgentSystem."""

    RULES = (
        Rule(
            "!has(self.entrypoint) || self.agents.exists(agent, agent.name == self.entrypoint)",
            "has to name a member",
            "entrypoint",
        ),
        Rule(
            "self.agents.all(agent, !has(agent.dependsOn) || agent.dependsOn.all(other,"
            " other.agent != agent.name && self.agents.exists(one, one.name == other.agent)))",
            "dependsOn has to name other members",
            "agents",
        ),
        Rule(
            "!has(self.channels) || self.channels.all(channel,"
            " channel.from.all(name, self.agents.exists(agent, agent.name == name))"
            " && channel.to.all(name, self.agents.exists(agent, agent.name == name)))",
            "from and to have to name members",
            "channels",
        ),
    )

    description: Annotated[str, Field(max_length=4096)] = Field("", description="What the system does, for people.")
    owner: Annotated[str, Field(max_length=128)] = Field("", description="Who is responsible, for people.")
    suspend: bool = Field(False, description="True: the members that the system owns have no replicas.")
    entrypoint: Name | None = Field(None, description="The member that the Service of the system selects.")
    defaults: FreeForm = Field(
        default_factory=dict,
        description="Spec of an Agent that is merged under that of each template: maps merge, lists replace.",
    )
    agents: Annotated[tuple[Member, ...], Field(strict=False, min_length=1, max_length=64), Keyed("name")] = Field(
        description="The members."
    )
    topology: Topology = Field(default_factory=Topology, description="How members work together.")
    channels: Annotated[tuple[Channel, ...], Field(strict=False, max_length=64), Keyed("name")] = Field(
        (), description="Who talks to whom."
    )
    rollout: SystemRollout = Field(
        default_factory=SystemRollout, description="In which order members are created and updated."
    )
    deletion: SystemDeletion = Field(default_factory=SystemDeletion, description="In which order members are deleted.")


@dataclass(frozen=True, slots=True)
class System:
    """One MultiAgentSystem custom resource: its identity and its validated spec."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: SystemSpec
    finalizers: tuple[str, ...] = ()
    is_deleted: bool = False

    @property
    def ref(self) -> ObjectRef:
        """The ref of the system."""
        return ObjectRef("agents.gitsync.dev", "MultiAgentSystem", self.namespace, self.name)


def parse_system(manifest: Manifest) -> System:
    """Return the system of a custom resource; raise InvalidInput that names the first invalid field."""
    meta = metadata_of(manifest)
    ref = ref_of(manifest)
    return System(
        name=ref.name,
        namespace=ref.namespace,
        uid=uid_of(manifest),
        generation=int(meta.get("generation", 0)),
        spec=parse_spec(SystemSpec, manifest.get("spec"), "spec", object=str(ref)),
        finalizers=tuple(meta.get("finalizers") or ()),
        is_deleted=bool(meta.get("deletionTimestamp")),
    )


_PARSERS: Final[Mapping[GroupKind, Callable[[Manifest], Spec]]] = {
    GroupKind(AGENTS_GROUP, "Agent"): lambda manifest: parse_agent(manifest).spec,
    GroupKind(AGENTS_GROUP, "MultiAgentSystem"): lambda manifest: parse_system(manifest).spec,
}
_LENGTH = 40
"""Hexadecimal digits of a digest, see ``plan.applied``."""


def spec_digest(manifest: Manifest) -> str:
    """
    Return the digest of the spec of an Agent or a system, empty for another kind and for a spec that is not valid.

    An Application permits the specs with the digests of what it applied.

    Defaults count as if they were written, since the API server fills them in. ``replicas`` does not count: whatever
    scales an Agent sets it, by the subresource ``scale``.
    """
    # each object of each commit asks, and nearly all are of other groups
    if not str(manifest.get("apiVersion")).startswith(f"{AGENTS_GROUP}/"):
        return ""
    parse = _PARSERS.get(ref_of(manifest).of)
    if parse is None:
        return ""
    try:
        members = parse(manifest).model_dump(mode="json", exclude={"replicas"})
    except InvalidInput:
        # An invalid spec is never carried out, so that nothing of it has to be permitted.
        return ""
    return content_hash(members)[:_LENGTH]
