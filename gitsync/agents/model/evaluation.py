"""
What a new revision has to pass before it gets requests: evaluation by cases, and the contract of an Agent.

The contract names the lock that what the Agent depends on is compared with.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import ConfigMapKeyRef, Cron, Seconds
from gitsync.agents.model.runtime import Image, Resources
from gitsync.agents.model.tools import Endpoint, ModelCredentials
from gitsync.kube.model import FreeForm
from gitsync.objects.parsing import Section, Text

Percent = Annotated[int, Field(ge=0, le=100)]


class Judge(Section):
    """The model that judges answers by rubrics, behind an OpenAI-compatible endpoint."""

    id: Annotated[Text, Field(max_length=256)] = Field(description="The model, as its service names it.")
    endpoint: Endpoint = Field(description="Base URL of the service.")
    credentials: ModelCredentials | None = Field(None, description="How the evaluation signs in at the service.")
    votes: Annotated[int, Field(ge=1, le=9)] = Field(
        1, description="How often each answer is judged at most; the majority decides. An odd number has no ties."
    )


class HttpQuestion(Section):
    """How an agent without A2A is asked, such as by the chat completions of OpenAI."""

    path: Annotated[str, Field(max_length=1024, pattern=r"^/[^\s]*$")] = Field(description="Path that is posted to.")
    body: FreeForm = Field(description="JSON to post; `$input` in its texts is the question.")
    answer: Annotated[str, Field(max_length=256, pattern=r"^/.*$")] = Field(
        description="JSON Pointer to the text of the answer, such as `/choices/0/message/content`."
    )
    tokens: Annotated[str, Field(max_length=256, pattern=r"^/.*$")] | None = Field(
        None, description="JSON Pointer to the tokens that it took; absent: not counted."
    )


class EvaluationLimits(Section):
    """What an evaluation may use; cases beyond a limit fail."""

    seconds: Annotated[int, Field(ge=1, le=86400)] = Field(3600, description="Seconds in all.")
    calls: Annotated[int, Field(ge=1, le=100000)] | None = Field(
        None, description="Messages to agents and requests to the judge; absent: not limited."
    )
    tokens: Annotated[int, Field(ge=1, le=1000000000)] | None = Field(
        None, description="Tokens that the judge used and that agents report; absent: not limited."
    )


class Evaluation(Section):
    """Cases that a new revision answers on its preview Pods before it gets requests."""

    cases: ConfigMapKeyRef = Field(
        description="ConfigMap member with the cases as JSON Lines: `name`, `input` and `assert`, a list."
    )
    pass_percent: Percent = Field(100, description="Share of the cases that have to pass.")
    must_pass: Annotated[tuple[Text, ...], Field(strict=False, max_length=256)] = Field(
        (),
        description="Names of cases that may not fail where they pass on the revision that serves, or where none does.",
    )
    samples: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="How often each case is asked at most, since the answers of a model differ."
    )
    sample_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        100, description="Share of the answers to a case that have to pass for the case to pass."
    )
    no_worse_than_serving: bool = Field(
        False,
        description="True: a revision also fails where its answers are worse than those of the revision that serves, by"
        " the exact test of McNemar over all pairs of answers, with less than 1 % of false alarms.",
    )
    timeout_seconds: Seconds = Field(30, description="How long the agent may take for one case.")
    http: HttpQuestion | None = Field(None, description="How the agent is asked; absent: by A2A, 1.0 or 0.3.")
    judge: Judge | None = Field(None, description="The model that judges answers; needed by cases with a `rubric`.")
    limits: EvaluationLimits = Field(default_factory=EvaluationLimits, description="What the evaluation may use.")
    schedule: Cron | None = Field(
        None, description="Cron expression in UTC for the cases to be asked of the revision that serves; absent: never."
    )
    image: Image = Field(
        "gitsync:latest", description="Image with gitsync, which sends the cases: the one of the controller."
    )
    resources: Resources = Field(
        default_factory=lambda: Resources(
            requests={"cpu": "100m", "memory": "256Mi"}, limits={"cpu": "1", "memory": "512Mi"}
        ),
        description="Resources of its Pod, which a quota may demand; absent: 100m and 256Mi, at most 1 and 512Mi.",
    )


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
