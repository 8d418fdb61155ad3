"""Evaluation of a new revision by cases, before it gets requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gitsync.agents.model.base import ConfigMapKeyRef, Seconds
from gitsync.agents.model.runtime import Image
from gitsync.objects.parsing import Section, Text

Percent = Annotated[int, Field(ge=0, le=100)]


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
    timeout_seconds: Seconds = Field(30, description="How long the agent may take for one case.")
    image: Image = Field(
        "gitsync:latest", description="Image with gitsync, which sends the cases: the one of the controller."
    )
