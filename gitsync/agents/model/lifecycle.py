"""What happens before, after and at the end of an Agent's Pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.agents.model.base import OWN_CONTAINERS, Name, Seconds, keyed, not_one_of
from gitsync.agents.model.runtime import Arguments, EnvVar, Exec, Image
from gitsync.kube.model import Rule, Ruled
from gitsync.objects.parsing import Section


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
    env: Annotated[tuple[EnvVar, ...], Field(strict=False, max_length=256)] = Field(
        (), description="Environment variables besides those of the agent.", json_schema_extra=keyed("name")
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

    init: Annotated[tuple[InitStep, ...], Field(strict=False, max_length=16)] = Field(
        (),
        description="Commands that have to succeed, in order, before the agent starts.",
        json_schema_extra=keyed("name"),
    )
    validate_: Annotated[tuple[Check, ...], Field(strict=False, max_length=16)] = Field(
        (),
        alias="validate",
        description="Checks of a new revision, run once, before it is the good one.",
        json_schema_extra=keyed("name"),
    )
    on_validation_failure: Literal["Rollback", "Hold", "Ignore"] = Field(
        "Rollback", description="What to do with a revision whose checks fail."
    )
    drain: DrainCall | None = Field(None, description="What ends the work of a Pod before it stops.")
