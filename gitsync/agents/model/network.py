"""How an Agent is reached, what it reaches, and what it reports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import Port
from gitsync.agents.model.tools import Endpoint
from gitsync.kube.model import FreeForm, Rule, Ruled
from gitsync.objects.parsing import DecimalText, Keyed, Section, Text

Words = Annotated[tuple[Annotated[Text, Field(max_length=128)], ...], Field(strict=False, max_length=32)]
Ports = Annotated[tuple[Port, ...], Field(strict=False, max_length=32)]


class Skill(Section):
    """What the agent can do, for its card."""

    id: Annotated[Text, Field(max_length=128)] = Field(description="Identifier of the skill.")
    name: Annotated[Text, Field(max_length=128)] = Field(description="Its name.")
    description: Annotated[str, Field(max_length=4096)] = Field("", description="What it does.")
    tags: Words = Field((), description="Words by which it is found.")
    examples: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(strict=False, max_length=16)] = Field(
        (), description="Questions for it."
    )


class Card(Section):
    """The A2A card of the agent."""

    skills: Annotated[tuple[Skill, ...], Field(strict=False, max_length=64), Keyed("id")] = Field(
        (), description="What the agent can do."
    )
    input_modes: Words = Field(("text/plain",), description="Media types of requests.")
    output_modes: Words = Field(("text/plain",), description="Media types of answers.")
    streaming: bool = Field(False, description="Whether answers are streamed.")


class Expose(Section):
    """How an Agent is reached."""

    protocol: Literal["A2A", "HTTP", "None"] = Field(
        "A2A", description="`A2A`: a Service and a card; `HTTP`: a Service; `None`: not at all."
    )
    card: Card = Field(default_factory=Card, description="The A2A card, `/.well-known/agent-card.json`.")


class IngressPeer(Ruled):
    """Who may call the agent."""

    RULES = (
        Rule(
            "has(self.cidr) ? !has(self.namespaceSelector) && !has(self.podSelector)"
            " : has(self.namespaceSelector) || has(self.podSelector)",
            "set either cidr, or selectors",
        ),
    )

    namespace_selector: FreeForm | None = Field(None, description="Namespaces, by a label selector.")
    pod_selector: FreeForm | None = Field(None, description="Pods, by a label selector.")
    cidr: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-fA-F.:]+/[0-9]+$")] | None = Field(
        None, description="Addresses."
    )


class EgressPeer(IngressPeer):
    """Whom the agent may call."""

    ports: Ports = Field((), description="TCP ports; absent: all.")


class Network(Section):
    """What an Agent may reach."""

    policy: Literal["Managed", "Unmanaged"] = Field(
        "Managed",
        description="`Managed`: a NetworkPolicy denies everything that this spec does not name; `Unmanaged`: none.",
    )
    ingress_from: Annotated[tuple[IngressPeer, ...], Field(strict=False, max_length=64)] = Field(
        (), description="Who else may call the agent."
    )
    egress_to: Annotated[tuple[EgressPeer, ...], Field(strict=False, max_length=64)] = Field(
        (), description="Whom else the agent may call."
    )


class Metrics(Section):
    """Metrics of the agent."""

    port: Port = Field(9090, description="Port of the metrics.")
    path: Annotated[str, Field(max_length=512, pattern=r"^/")] = Field("/metrics", description="Path of the metrics.")
    service_monitor: Literal["Auto", "Always", "Never"] = Field(
        "Auto", description="`Auto`: a ServiceMonitor where that kind is served."
    )


class Logging(Section):
    """Logs of the agent."""

    format: Literal["JSON", "Text"] = Field("JSON", description="Form of a line; it becomes `LOG_FORMAT`.")
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="It becomes `LOG_LEVEL`.")


class Tracing(Section):
    """Traces of the agent, by OpenTelemetry."""

    endpoint: Endpoint = Field(description="OTLP endpoint of the collector.")
    sample_ratio: DecimalText = Field(1.0, description='Share of the requests that are traced, such as `"0.1"`.')
    injection: Literal["Environment", "Sidecar"] = Field(
        "Environment",
        description="`Environment`: the agent exports itself; `Sidecar`: to a collector in its Pod.",
    )
    capture_content: bool = Field(False, description="Whether spans contain prompts and answers.")


class Observability(Section):
    """What an Agent reports about itself."""

    metrics: Metrics | None = Field(None, description="Metrics; absent: none are scraped.")
    logging: Logging = Field(default_factory=Logging, description="Logs.")
    tracing: Tracing | None = Field(None, description="Traces; absent: none.")
