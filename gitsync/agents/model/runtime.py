"""The containers of an Agent, and what happens before, after and at the end of its Pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import (
    OWN_CONTAINERS,
    ConfigMapKeyRef,
    LocalRef,
    Name,
    ObjectName,
    Port,
    Quantity,
    Seconds,
    SecretKeyRef,
    not_one_of,
)
from gitsync.kube.model import FreeForm, Labels, Rule, Ruled
from gitsync.objects.parsing import Keyed, Section

Image = Annotated[
    str,
    Field(
        max_length=512,
        pattern=r"^[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
        r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$",
    ),
]
"""An image with a tag or a digest: one without either changes under a running Agent."""

Arguments = Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(strict=False, max_length=256)]


class EnvSource(Ruled):
    """Where the value of a variable comes from."""

    RULES = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(one, one).size() == 1",
            "set exactly one source",
        ),
    )

    secret_key_ref: SecretKeyRef | None = Field(None, description="A member of a Secret.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(None, description="A member of a ConfigMap.")
    field_ref: FreeForm | None = Field(None, description="A field of the Pod, as in a Pod's `fieldRef`.")


class EnvVar(Ruled):
    """An environment variable."""

    RULES = (
        Rule("!has(self.value) || !has(self.valueFrom)", "set either value or valueFrom"),
        Rule(
            "has(self.valueFrom) || !self.name.matches('(?i)(password|token|secret|api_?key)')",
            "a variable of this name has to come from a Secret",
            "valueFrom",
        ),
    )

    name: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(description="Its name.")
    value: Annotated[str, Field(max_length=32768)] | None = Field(None, description="Its value.")
    value_from: EnvSource | None = Field(None, description="Where its value comes from.")


class Resources(Section):
    """Requested resources and limits of a container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(
        default_factory=dict, description="What the scheduler reserves."
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(
        default_factory=dict, description="What the container may use at most."
    )


class AgentServiceAccount(Section):
    """The identity of the Pods at the API server."""

    create: bool = Field(True, description="Whether a ServiceAccount with the name of the Agent is created.")
    name: ObjectName | None = Field(None, description="An existing ServiceAccount, where none is created.")
    annotations: Labels = Field(default_factory=dict, description="Annotations of the created one.")
    automount_token: bool = Field(False, description="Whether Pods get its token.")


class AgentSecurity(Section):
    """How far Pods are restricted."""

    profile: Literal["Restricted", "Baseline", "Privileged"] = Field(
        "Restricted", description="The pod security standard that Pods comply with."
    )


class Toleration(Section):
    """A taint of nodes that Pods tolerate."""

    key: Annotated[str, Field(max_length=317)] | None = Field(None, description="Key of the taint; absent: all.")
    operator: Literal["Exists", "Equal"] = Field("Equal", description="How the value is compared.")
    value: Annotated[str, Field(max_length=63)] | None = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint; absent: all."
    )
    toleration_seconds: Annotated[int, Field(ge=0)] | None = Field(
        None, description="How long Pods stay on a node that gets the taint."
    )


class HttpGet(Section):
    """A request to the Pod."""

    path: Annotated[str, Field(max_length=1024, pattern=r"^/")] = Field("/", description="Path of the URL.")
    port: Port | None = Field(None, description="Port; absent: `runtime.port`.")


class Exec(Section):
    """A command in a container."""

    command: Arguments = Field(description="Command and arguments; no shell.", min_length=1)


class Probe(Ruled):
    """A check of a container."""

    RULES = (Rule("has(self.httpGet) != has(self.exec)", "set either httpGet or exec"),)

    http_get: HttpGet | None = Field(None, description="A request that has to succeed.")
    exec: Exec | None = Field(None, description="A command that has to succeed.")
    initial_delay_seconds: Annotated[int, Field(ge=0, le=3600)] | None = Field(None, description="Seconds before it.")
    period_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(None, description="Seconds between two.")
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(None, description="Seconds for one.")
    failure_threshold: Annotated[int, Field(ge=1, le=10000)] | None = Field(
        None, description="Failures in a row after which the check has failed."
    )
    success_threshold: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="Successes in a row after which it has succeeded."
    )


class Probes(Section):
    """The checks of the agent's container."""

    startup: Probe | None = Field(None, description="The others wait until it has succeeded.")
    readiness: Probe | None = Field(None, description="A Pod gets requests while it succeeds.")
    liveness: Probe | None = Field(None, description="The container is restarted when it fails.")


class Sidecar(Ruled):
    """A container beside the agent's."""

    RULES = (not_one_of(OWN_CONTAINERS),)

    name: Name = Field(description="Name of the container.")
    image: Image = Field(description="Image with a tag or a digest.")
    command: Arguments = Field((), description="Command; absent: the image's.")
    args: Arguments = Field((), description="Arguments; absent: the image's.")
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=256), Keyed("name")] = Field(
        (), description="Environment variables."
    )
    ports: Annotated[tuple[Port, ...], Field(strict=False, max_length=32)] = Field((), description="Container ports.")
    resources: Resources = Field(default_factory=Resources, description="Requested resources and limits.")


class Runtime(Section):
    """The containers of an Agent, and where they run."""

    image: Image = Field(description="Image with a tag or a digest.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the image is pulled; absent: as Kubernetes decides by its tag."
    )
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(strict=False, max_length=16)] = Field(
        (), description="Secrets of the registry."
    )
    command: Arguments = Field((), description="Command; absent: the image's.")
    args: Arguments = Field((), description="Arguments; absent: the image's.")
    port: Port = Field(8080, description="Port on which the agent answers; it becomes `PORT`.")
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=256), Keyed("name")] = Field(
        (), description="Environment variables."
    )
    resources: Resources = Field(default_factory=Resources, description="Requested resources and limits.")
    service_account: AgentServiceAccount = Field(
        default_factory=AgentServiceAccount, description="The identity of the Pods at the API server."
    )
    security_context: AgentSecurity = Field(default_factory=AgentSecurity, description="How far Pods are restricted.")
    runtime_class_name: ObjectName | None = Field(None, description="RuntimeClass, such as a sandboxed one.")
    priority_class_name: ObjectName | None = Field(None, description="PriorityClass of the Pods.")
    node_selector: Labels = Field(default_factory=dict, description="Labels of the nodes on which Pods run.")
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False, max_length=32)] = Field(
        (), description="Taints of nodes that Pods tolerate."
    )
    topology_spread: Literal["None", "Host", "Zone"] = Field("None", description="Over what replicas are spread.")
    sidecars: Annotated[tuple[Sidecar, ...], Field(strict=False, max_length=16), Keyed("name")] = Field(
        (), description="Containers beside the agent's."
    )
    probes: Probes = Field(default_factory=Probes, description="The checks of the agent's container.")


class HttpCall(Section):
    """A request to the agent."""

    method: Literal["GET", "POST", "PUT"] = Field("GET", description="Method of the request.")
    path: Annotated[str, Field(max_length=1024, pattern=r"^/[^\s]*$")] = Field(description="Path of the URL.")
    expect_status: Annotated[int, Field(ge=100, le=599)] = Field(200, description="The status that means success.")


class InitStep(Ruled):
    """A command that has to succeed before the agent starts."""

    RULES = (not_one_of(OWN_CONTAINERS),)

    name: Name = Field(description="Name of the container.")
    image: Image | None = Field(None, description="Image; absent: that of the runtime.")
    command: Arguments = Field(description="Command and arguments; no shell.", min_length=1)
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=256), Keyed("name")] = Field(
        (), description="Environment variables besides those of the agent."
    )
    timeout_seconds: Seconds | None = Field(
        None, description="How long it may take, by the command `timeout` of the image; absent: not limited."
    )


class Check(Ruled):
    """A check of a new revision."""

    RULES = (Rule("has(self.http) != has(self.exec)", "set either http or exec"), not_one_of(OWN_CONTAINERS))

    name: Name = Field(description="Name of the check.")
    http: HttpCall | None = Field(None, description="A request to a Pod of the revision.")
    exec: Exec | None = Field(
        None, description="A command in the agent's image; `AGENT_URL` is the address of the revision."
    )
    timeout_seconds: Seconds = Field(60, description="How long one attempt may take.")
    retries: Annotated[int, Field(ge=0, le=20)] = Field(0, description="Attempts after a failed one.")


class DrainCall(Ruled):
    """What ends the work of a Pod before it stops."""

    RULES = (Rule("!has(self.http) || !has(self.exec)", "set either http or exec"),)

    http: HttpCall | None = Field(None, description="A request to the Pod that answers once its work has ended.")
    exec: Exec | None = Field(None, description="A command that ends once the work has ended.")
    timeout_seconds: Seconds = Field(
        30, description="How long it may take; the Pod gets 10 seconds more before it is killed."
    )


class Lifecycle(Section):
    """What happens before, after and at the end of Pods."""

    init: Annotated[tuple[InitStep, ...], Field(strict=False, max_length=16), Keyed("name")] = Field(
        (),
        description="Commands that have to succeed, in order, before the agent starts.",
    )
    validate_: Annotated[tuple[Check, ...], Field(strict=False, max_length=16), Keyed("name")] = Field(
        (),
        alias="validate",
        description="Checks of a new revision, run once, before it is the good one.",
    )
    on_validation_failure: Literal["Rollback", "Hold", "Ignore"] = Field(
        "Rollback", description="What to do with a revision whose checks fail."
    )
    drain: DrainCall | None = Field(None, description="What ends the work of a Pod before it stops.")
