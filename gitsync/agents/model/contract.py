"""The contract of an Agent: the lock that what it depends on is compared with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gitsync.agents.model.base import ConfigMapKeyRef, Cron, Seconds
from gitsync.agents.model.runtime import Image, Resources
from gitsync.objects.parsing import Section

DriftAction = Literal["Report", "Evaluate", "Hold", "Stop"]


class ContractPolicy(Section):
    """What is done about tools, peers and models that differ from their lock."""

    lock: ConfigMapKeyRef = Field(
        description="ConfigMap member with `contracts.lock`, as `gitsync agent lock` writes it."
    )
    schedule: Cron | None = Field(
        None,
        description="Cron expression in UTC for comparisons beside those of each new revision; absent: none.",
    )
    on_contract_drift: DriftAction | None = Field(
        None,
        description="`Report`: only the status and an Event. `Evaluate`: the cases of `evaluation` are asked of the"
        " revision that serves, and a failure holds. `Hold`: no new revision is begun. `Stop`: all Pods end. Absent:"
        " `Evaluate` for drift of the class Moderate, `Hold` for Dangerous.",
    )
    timeout_seconds: Seconds = Field(300, description="How long one comparison may take.")
    image: Image = Field("gitsync:latest", description="Image with gitsync, which compares: the one of the controller.")
    resources: Resources = Field(
        default_factory=lambda: Resources(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"cpu": "500m", "memory": "256Mi"}
        ),
        description="Resources of its Pod, which a quota may demand; absent: 50m and 128Mi, at most 500m and 256Mi.",
    )
