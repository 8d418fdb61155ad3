"""What all parts of an Agent share: references and field types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from urllib.parse import urlsplit

from croniter import CroniterBadDateError, croniter
from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gitsync.kube.model import Rule
from gitsync.objects.parsing import Section, Text

_NAME = r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$"

Name = Annotated[str, Field(max_length=30, pattern=_NAME)]
"""A DNS label that leaves room for the name of the Agent in the names of children."""

ObjectName = Annotated[Text, Field(max_length=253)]
"""The name of another object of the same namespace."""

Key = Annotated[Text, Field(max_length=253)]
"""A member of a ConfigMap or Secret."""

Port = Annotated[int, Field(ge=1, le=65535)]

_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
HOST_AND_PORT = rf"(\[[0-9A-Fa-f:.]+\]|[^@/?#:\[\]\s]+)(:{_PORT})?"
"""The pattern of the host of a URL without user information, and of its port."""


def readable_url(url: str) -> str:
    """Return a URL; raise PydanticCustomError for an address that no pattern can tell from a valid one."""
    try:
        # No pattern can tell whether an address in brackets is one of IPv6.
        urlsplit(url)
    except ValueError as error:
        raise PydanticCustomError("url", "{message}", {"message": str(error)}) from error
    return url


Seconds = Annotated[int, Field(ge=1, le=86400)]
"""Whole seconds, at most a day."""

Quantity = Annotated[
    int | str,
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "maxLength": 32, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    ),
]
"""A Kubernetes quantity such as ``500m`` or ``1Gi``."""

IntOrPercent = Quantity
"""A number, or a percentage such as ``25%``."""

OWN_CONTAINERS: Final = ("agent", "model-cache", "otel-collector", "evaluation")
"""Names of containers of the operator."""


def _is_cron(schedule: str) -> str:
    if not croniter.is_valid(schedule):
        hint = 'write minute, hour, day, month, weekday: "0 3 * * *"'
        raise PydanticCustomError("cron", "not a cron expression", {"hint": hint})
    try:
        croniter(schedule).get_next()
    except CroniterBadDateError as error:  # such as 30 February
        raise PydanticCustomError("cron", "never occurs", {"hint": "choose a date that exists"}) from error
    return schedule


Cron = Annotated[str, Field(max_length=100, pattern=r"^\S+ \S+ \S+ \S+ \S+$"), AfterValidator(_is_cron)]
"""A cron expression with five fields, in UTC."""


def not_one_of(names: Sequence[str]) -> Rule:
    """Return the rule that a name is not one of those that the operator uses itself."""
    return Rule(f"!(self.name in {list(names)})", f"may not be {', '.join(names)}: the operator uses it", "name")


class SecretKeyRef(Section):
    """A member of a Secret."""

    name: ObjectName = Field(description="Name of a Secret in the namespace of the Agent.")
    key: Key = Field(description="Its member.")


class ConfigMapKeyRef(Section):
    """A member of a ConfigMap."""

    name: ObjectName = Field(description="Name of a ConfigMap in the namespace of the Agent.")
    key: Key = Field(description="Its member.")


class LocalRef(Section):
    """An object of the same namespace."""

    name: ObjectName = Field(description="Its name.")
