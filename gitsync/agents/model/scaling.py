"""How many replicas an Agent has, how they are replaced, and what they may use in a day."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import ConfigMapKeyRef, IntOrPercent, Name, ObjectName
from gitsync.kube.model import FreeForm, Rule, Ruled
from gitsync.objects.parsing import DecimalText, Keyed, Section, Text

Hostname = Annotated[str, Field(max_length=253, pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class Autoscaling(Ruled):
    """Replicas that follow the load."""

    RULES = (
        Rule("self.minReplicas <= self.maxReplicas", "must not exceed maxReplicas", "minReplicas"),
        Rule("self.minReplicas > 0 || self.provider == 'KEDA'", "may be 0 only with provider KEDA", "minReplicas"),
    )

    min_replicas: Annotated[int, Field(ge=0, le=1000)] = Field(1, description="Fewest replicas; 0 only with KEDA.")
    max_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(description="Most replicas.")
    provider: Literal["HPA", "KEDA"] = Field(
        "HPA", description="`HPA`: a HorizontalPodAutoscaler; `KEDA`: a ScaledObject, where it is served."
    )
    metrics: Annotated[tuple[FreeForm, ...], Field(strict=False, max_length=16)] = Field(
        (),
        description="Metrics of `autoscaling/v2` for HPA, or triggers for KEDA, as they are; absent: 80 % CPU.",
    )
    behavior: FreeForm | None = Field(None, description="`behavior` of `autoscaling/v2`, as it is.")


class Availability(Section):
    """What voluntary disruptions leave running."""

    min_available: IntOrPercent = Field(
        description="Replicas that evictions leave running, a number or a percentage; without effect on one replica."
    )


class LeaderElection(Ruled):
    """
    One replica at a time does what must not be done twice: the holder of a Lease.

    The defaults and rules are those of Kubernetes' own controllers (client-go, tools/leaderelection).
    """

    RULES = (
        Rule(
            "self.leaseDurationSeconds > self.renewDeadlineSeconds",
            "must be more than renewDeadlineSeconds, or two replicas could lead",
            "leaseDurationSeconds",
        ),
        Rule(
            # 1.2 is the jitter factor of client-go, by which a retry may be late.
            "self.renewDeadlineSeconds * 5 > self.retryPeriodSeconds * 6",
            "must be more than 1.2 times retryPeriodSeconds",
            "renewDeadlineSeconds",
        ),
    )

    lease_duration_seconds: Annotated[int, Field(ge=2, le=3600)] = Field(
        15, description="How long the others wait for a leader that does not renew the Lease."
    )
    renew_deadline_seconds: Annotated[int, Field(ge=2, le=3600)] = Field(
        10, description="How long the leader tries to renew the Lease before it stops leading."
    )
    retry_period_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        2, description="How long a replica waits between attempts to get or renew the Lease."
    )


class DailyLimit(Ruled):
    """What may be used on one day, in UTC."""

    RULES = (Rule("has(self.tokensPerDay) || has(self.costPerDay)", "needs tokensPerDay, costPerDay or both"),)

    tokens_per_day: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        None, description="Tokens of all requests to models, of input and output together."
    )
    cost_per_day: DecimalText | None = Field(
        None, description='Money, in the unit of the prices and in quotes, such as `"12.50"`.'
    )


class Budget(Ruled):
    """What an Agent may use of its models in a day, and what happens beyond."""

    RULES = (
        Rule("has(self.agent) || has(self.allAgents)", "needs a limit: agent, allAgents or both"),
        Rule(
            "has(self.prices) || !((has(self.agent) && has(self.agent.costPerDay))"
            " || (has(self.allAgents) && has(self.allAgents.costPerDay)))",
            "costPerDay needs prices",
            "prices",
        ),
    )

    agent: DailyLimit | None = Field(None, description="Limits of this Agent.")
    all_agents: DailyLimit | None = Field(
        None, description="Limits of all agents of the namespace together; this one acts when they are exceeded."
    )
    prices: ConfigMapKeyRef | None = Field(
        None,
        description="ConfigMap member with the price of a million tokens by model, as JSON:"
        ' `{"small": {"input": 0.6, "output": 2.4}}`.',
    )
    warn_percent: Annotated[int, Field(ge=1, le=99)] = Field(
        80, description="Share of a limit from which the condition, an Event and a notification warn."
    )
    on_exceeded: Literal["Notify", "Throttle", "Suspend"] = Field(
        "Notify",
        description="`Notify`: only report it. `Throttle`: at most `throttledReplicas` run. `Suspend`: none runs. Both"
        " last until the day ends in UTC, or the limit is raised.",
    )
    throttled_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Most replicas while `Throttle` is in effect."
    )


class RollingUpdate(Section):
    """How a rolling update replaces Pods."""

    max_surge: IntOrPercent = Field(1, description="Pods above the wanted number.")
    max_unavailable: IntOrPercent = Field(0, description="Pods below the wanted number.")


class CanaryStep(Section):
    """One step of a canary."""

    weight: Annotated[int, Field(ge=1, le=100)] = Field(description="Percentage of the requests for the new revision.")
    pause_seconds: Annotated[int, Field(ge=0, le=604800)] = Field(0, description="Pause after the step is reached.")


class Analysis(Ruled):
    """A query that decides on a canary."""

    RULES = (
        Rule("has(self.max) || has(self.maxAboveServing)", "needs max, maxAboveServing or both", "max"),
        Rule(
            "!has(self.maxAboveServing) || self.prometheusQuery.contains('$revision')",
            "needs $revision to compare two revisions",
            "prometheusQuery",
        ),
    )

    name: Name = Field(description="What the number is, for messages.")
    query: Annotated[Text, Field(max_length=2048)] = Field(
        alias="prometheusQuery",
        description="PromQL instant query; each series of its result is compared. `$revision` is the label"
        " `agents.gitsync.dev/revision` of the Pods of the new revision.",
    )
    max: DecimalText | None = Field(None, description='Maximum value, in quotes, such as `"0.05"`.')
    max_above_serving: DecimalText | None = Field(
        None,
        description="Maximum difference from the value of the revision that serves, in quotes, for a query with"
        " `$revision`.",
    )
    on_no_data: Literal["Rollback", "Hold", "Ignore"] = Field(
        "Rollback",
        description="A step does not end without data. `Rollback`: without any for `progressDeadlineSeconds`, the new"
        " revision is given up; `Hold`: the step waits for data or `gitsync agent promote`; `Ignore`: the query decides"
        " only where it has data.",
    )

    def query_of(self, revision: str) -> str:
        """Return the query for the Pods with this revision label."""
        return self.query.replace("$revision", revision)


class GatewayRef(Section):
    """The Gateway whose requests a canary divides."""

    name: ObjectName = Field(description="Name of the Gateway.")
    namespace: ObjectName | None = Field(None, description="Its namespace; absent: that of the Agent.")
    section_name: ObjectName | None = Field(None, description="Name of its listener; absent: all.")
    hostnames: Annotated[tuple[Hostname, ...], Field(strict=False, max_length=16)] = Field(
        (), description="Host names of the requests; absent: those of the listener."
    )


class Canary(Ruled):
    """A new revision that gets more and more of the requests."""

    RULES = (Rule("!has(self.gateway) || self.traffic == 'GatewayAPI'", "needs traffic GatewayAPI", "gateway"),)

    steps: Annotated[tuple[CanaryStep, ...], Field(strict=False, min_length=1, max_length=20)] = Field(
        description="Steps, in order; after the last one the new revision gets everything."
    )
    analysis: Annotated[tuple[Analysis, ...], Field(strict=False, max_length=10), Keyed("name")] = Field(
        (),
        description="Queries of the operator's Prometheus that have to keep within limits.",
    )
    traffic: Literal["ReplicaRatio", "GatewayAPI"] = Field(
        "ReplicaRatio",
        description="`ReplicaRatio`: shares are numbers of Pods behind one Service; `GatewayAPI`: weights of an"
        " HTTPRoute, where that kind is served.",
    )
    gateway: GatewayRef | None = Field(
        None,
        description="For `GatewayAPI`: the Gateway that gets the requests; absent: a service mesh divides those to the"
        " Service of the Agent.",
    )


class BlueGreen(Section):
    """A new revision beside the old one, and a switch."""

    promotion: Literal["Automatic", "Manual"] = Field(
        "Manual", description="Whether the switch waits for `gitsync agent promote`."
    )
    keep_old_seconds: Annotated[int, Field(ge=0, le=604800)] = Field(
        600, description="How long the old revision is kept after the switch."
    )


class Update(Ruled):
    """How a new revision replaces the old one."""

    RULES = (
        Rule(
            "has(self.canary) == (self.type == 'Canary') && (!has(self.blueGreen) || self.type == 'BlueGreen')"
            " && (!has(self.rollingUpdate) || self.type == 'RollingUpdate')",
            "set only the member of its type: rollingUpdate, canary or blueGreen",
        ),
    )

    type: Literal["RollingUpdate", "Recreate", "BlueGreen", "Canary"] = Field(
        "RollingUpdate", description="How Pods of the old revision are replaced."
    )
    progress_deadline_seconds: Annotated[int, Field(ge=1, le=86400)] = Field(
        600, description="How long a new revision may make no progress."
    )
    auto_rollback: bool = Field(True, description="Whether a revision that fails is replaced by the last good one.")
    rolling_update: RollingUpdate | None = Field(None, description="For type `RollingUpdate`: limits.")
    canary: Canary | None = Field(None, description="For type `Canary`: steps.")
    blue_green: BlueGreen | None = Field(None, description="For type `BlueGreen`: the switch.")
