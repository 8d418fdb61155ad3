"""What models of all custom resources share: rules in CEL between fields, labels, and parts of any form."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gitsync.kube.cel import holds
from gitsync.objects.parsing import Section

Labels = Annotated[dict[str, str], Field(max_length=64)]

FreeForm = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A part of a Kubernetes object that is passed on as it is."""


class Rule(NamedTuple):
    """A CEL rule over ``self``; one over ``oldSelf`` too is for the API server alone. ``field`` is what it is about."""

    rule: str
    message: str
    field: str = ""

    def as_schema(self) -> dict[str, str]:
        """Return the rule as ``x-kubernetes-validations`` has it."""
        validation = {"rule": self.rule, "message": self.message}
        return validation | ({"fieldPath": f".{self.field}"} if self.field else {})


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
        schema_of_model: dict[str, Any] = handler.resolve_ref_schema(handler(schema))
        if cls.RULES:
            schema_of_model["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.RULES]
        return schema_of_model
