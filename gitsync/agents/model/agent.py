"""Agent: one AI agent as one object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from gitsync.agents.model.evaluation import ContractPolicy, Evaluation
from gitsync.agents.model.network import Expose, Network, Observability
from gitsync.agents.model.runtime import Lifecycle, Runtime
from gitsync.agents.model.scaling import Autoscaling, Availability, Budget, LeaderElection, Update
from gitsync.agents.model.state import Backup, State
from gitsync.agents.model.tools import AgentMemory, Model, Prompt, Tool
from gitsync.kube.model import Rule, Ruled
from gitsync.objects.manifest import Manifest, annotations_of, labels_of, metadata_of, uid_of
from gitsync.objects.parsing import Keyed, parse_spec
from gitsync.objects.ref import ObjectRef, ref_of

# CEL fails on an absent member, so that each is asked for first.
_VOLUMES = "has(self.state) && has(self.state.volumes)"
_PER_REPLICA = f"{_VOLUMES} && self.state.volumes.exists(volume, volume.scope == 'PerReplica')"
# The API server fills in defaults only inside sections that are there.
_UPDATE = "(has(self.update) ? self.update.type : 'RollingUpdate')"
_ROUTED = "has(self.update) && has(self.update.canary) && self.update.canary.traffic == 'GatewayAPI'"
# A list of lists: to compare each header with each other one exceeds the costs that the API server allows a rule.
_HEADERS = (
    "self.tools.map(tool, has(tool.headersFrom),"
    " tool.headersFrom.map(header, (tool.name + '-' + header.name).lowerAscii()))"
)
_DISK = "volume.scope == 'Shared' && volume.accessModes.all(mode, mode.startsWith('ReadWriteOnce'))"


class AgentSpec(Ruled):
    """The spec of an Agent."""

    RULES = (
        Rule("!has(self.replicas) || !has(self.autoscaling)", "set either replicas or autoscaling"),
        Rule(
            f"!({_PER_REPLICA}) || {_UPDATE} != 'BlueGreen'",
            "BlueGreen is not possible with a volume per replica; use RollingUpdate or Canary",
            "update",
        ),
        Rule(
            f"!({_ROUTED}) || (!({_PER_REPLICA}) && (!has(self.expose) || self.expose.protocol != 'None'))",
            "traffic GatewayAPI needs a Service, and is not possible with a volume per replica; use ReplicaRatio",
            "update",
        ),
        Rule(
            f"!({_VOLUMES} && self.state.volumes.exists(volume, {_DISK}))"
            " || (!has(self.autoscaling) && (!has(self.replicas) || self.replicas <= 1)"
            f" && ({_UPDATE} == 'Recreate' || ({_UPDATE} == 'RollingUpdate'"
            " && has(self.update) && has(self.update.rollingUpdate)"
            " && string(self.update.rollingUpdate.maxSurge) == '0')))",
            "a Shared volume that one node mounts at a time needs one replica and update.type Recreate"
            " (or RollingUpdate with maxSurge 0); a new Pod would wait for the disk of the old one",
            "state",
        ),
        Rule(
            f"!has(self.leaderElection) || {_UPDATE} != 'BlueGreen'",
            "BlueGreen is not possible with leaderElection: Pods that wait for their promotion would take part;"
            " use RollingUpdate or Canary",
            "update",
        ),
        Rule(
            "!has(self.leaderElection) || !has(self.runtime.serviceAccount) || self.runtime.serviceAccount.create"
            " || has(self.runtime.serviceAccount.name)",
            "leaderElection needs a ServiceAccount that other Pods do not use: set create, or name one",
            "runtime.serviceAccount",
        ),
        Rule(
            "!has(self.model.cache) || (has(self.state) && has(self.state.volumes)"
            " && self.state.volumes.exists(volume, volume.name == self.model.cache.volume))",
            "model.cache.volume has to name an entry of state.volumes",
            "model",
        ),
        Rule(
            "!has(self.lifecycle) || !has(self.lifecycle.init) || !has(self.runtime.sidecars)"
            " || !self.lifecycle.init.exists(step, self.runtime.sidecars.exists(one, one.name == step.name))",
            "a step of lifecycle.init and an entry of runtime.sidecars have the same name",
            "lifecycle",
        ),
        Rule(
            f"!has(self.tools) || [{_HEADERS}].all(lists, lists.all(list, list.all(name,"
            " lists.exists_one(other, name in other))))",
            "headers of two tools have the same variable TOOL_<NAME>_<HEADER>; rename one of the tools",
            "tools",
        ),
        Rule(
            "!has(self.memory) || ((!has(self.memory.session) || !has(self.memory.session.databaseRef) ||"
            " (has(self.state) && has(self.state.databases) && self.state.databases.exists(database,"
            " database.name == self.memory.session.databaseRef))) && (!has(self.memory.longTerm) ||"
            " (has(self.state) && has(self.state.databases) && self.state.databases.exists(database,"
            " database.name == self.memory.longTerm.databaseRef))))",
            "databaseRef has to name an entry of state.databases",
            "memory",
        ),
    )

    description: Annotated[str, Field(max_length=4096)] = Field("", description="What the agent does, for people.")
    version: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")] = Field(
        "0.0.0", description="Version of the agent, for the card, the telemetry and the dashboard."
    )
    owner: Annotated[str, Field(max_length=128)] = Field("", description="Who is responsible, for people.")
    suspend: bool = Field(False, description="True: no replicas; volumes are kept.")
    model: Model = Field(description="The model that the agent asks.")
    prompt: Prompt | None = Field(None, description="The system prompt.")
    tools: Annotated[tuple[Tool, ...], Field(strict=False, max_length=64), Keyed("name")] = Field(
        (), description="What the agent may call."
    )
    memory: AgentMemory | None = Field(None, description="What the agent remembers.")
    state: State | None = Field(None, description="Volumes and databases.")
    backup: Backup | None = Field(None, description="When and how the volumes are copied; absent: they are not.")
    runtime: Runtime = Field(description="The containers, and where they run.")
    lifecycle: Lifecycle | None = Field(None, description="What happens before, after and at the end of Pods.")
    evaluation: Evaluation | None = Field(
        None, description="Cases that a new revision answers before it gets requests."
    )
    contract: ContractPolicy | None = Field(
        None, description="The lock of tools, peers and models; absent: they are not compared."
    )
    budget: Budget | None = Field(None, description="What it may use of its models in a day; absent: not limited.")
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Number of replicas; absent: 1, or as `autoscaling` decides."
    )
    autoscaling: Autoscaling | None = Field(None, description="Replicas that follow the load.")
    availability: Availability | None = Field(None, description="What voluntary disruptions leave running.")
    leader_election: LeaderElection | None = Field(
        None, description="A Lease by which one of the replicas leads; absent: all replicas are equal."
    )
    update: Update = Field(default_factory=Update, description="How a new revision replaces the old one.")
    expose: Expose = Field(default_factory=Expose, description="How the agent is reached.")
    network: Network = Field(default_factory=Network, description="What the agent may reach.")
    observability: Observability = Field(
        default_factory=Observability, description="What the agent reports about itself."
    )


@dataclass(frozen=True, slots=True)
class Agent:
    """One Agent custom resource: its identity and its validated spec."""

    name: str
    namespace: str
    uid: str
    generation: int
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: AgentSpec
    is_deleted: bool = False
    declared: Manifest = field(default_factory=dict)
    """The spec as the API server has it."""

    @property
    def ref(self) -> ObjectRef:
        """The ref of the Agent."""
        return ObjectRef("agents.gitsync.dev", "Agent", self.namespace, self.name)


def parse_agent(manifest: Manifest) -> Agent:
    """Return the Agent of a custom resource; raise InvalidInput that names the first invalid field."""
    meta = metadata_of(manifest)
    ref = ref_of(manifest)
    return Agent(
        name=ref.name,
        namespace=ref.namespace,
        uid=uid_of(manifest),
        generation=int(meta.get("generation", 0)),
        labels=labels_of(manifest),
        annotations=annotations_of(manifest),
        spec=parse_spec(AgentSpec, manifest.get("spec"), "spec", object=str(ref)),
        is_deleted=bool(meta.get("deletionTimestamp")),
        declared=manifest.get("spec") or {},
    )
