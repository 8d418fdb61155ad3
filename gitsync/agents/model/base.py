"""What all parts of an Agent share: references, field types, and rules in CEL."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gitsync.kube.cel import holds
from gitsync.objects.parsing import Section, Text


class Rule(NamedTuple):
    """A CEL rule over ``self``; one over ``oldSelf`` too is for the API server alone. ``field`` is what it is about."""

    rule: str
    message: str
    field: str = ""

    def as_schema(self) -> dict[str, str]:
        """Return the rule as ``x-kubernetes-validations`` has it."""
        found = {"rule": self.rule, "message": self.message}
        return found | ({"fieldPath": f".{self.field}"} if self.field else {})


class Ruled(Section):
    """
    A section with rules between its fields.

    They are written once: the API server evaluates them in the schema, and the model here, for `gitsync build --check`
    and for objects that were stored before a rule existed.
    """

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Ruled:
        members = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for rule in self.RULES:
            if "oldSelf" not in rule.rule and not holds(rule.rule, members, "self"):
                raise PydanticCustomError(
                    "rule", "{message}", {"message": f"{rule.field}: {rule.message}".removeprefix(": ")}
                )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        found: dict[str, Any] = handler.resolve_ref_schema(handler(schema))
        if cls.RULES:
            found["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.RULES]
        return found


@functools.cache
def keyed(*keys: str) -> dict[str, Any]:
    """Return the schema members of a list whose items are merged by these keys."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


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

Labels = Annotated[dict[str, str], Field(max_length=64)]

FreeForm = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A part of a Kubernetes object that is passed on as it is."""


OWN_CONTAINERS: Final = ("agent", "model-cache", "otel-collector", "evaluation")
"""Names of containers of the operator."""


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
