"""Random bodies for fuzzing: mostly what a schema asks for, and sometimes not."""

from __future__ import annotations

import random
from typing import Any

TEXTS = (
    "",
    "a",
    "Bad_Name",
    "x.example.com/y",
    "10.0.0.1",
    "10.0.0.0/8",
    "25%",
    "1Gi",
    "-1",
    "None",
    "v1",
    "*",
    "@daily",
)
NUMBERS = (0, 1, -1, 80, 99999, 2**31 - 1)


class Bodies:
    """Random bodies that mostly follow a schema, with members missing, null, empty or odd."""

    def __init__(self, schemas: dict[str, Any], chance: random.Random) -> None:
        self.schemas = schemas
        self.chance = chance

    def of(self, schema: dict[str, Any], depth: int) -> Any:
        if self.chance.random() < 0.03:
            return self.chance.choice([None, {}, [], "", 0, True])
        reference = (schema.get("allOf") or [schema])[0].get("$ref", "").rpartition("/")[2]
        if reference:
            return self.of(self.schemas[reference], depth)
        if "oneOf" in schema:
            return self.chance.choice([*TEXTS, *NUMBERS])
        if schema.get("format") == "date-time":
            return self.chance.choice(["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000000Z"])
        if schema.get("format") == "byte":
            return self.chance.choice(["", "YQ=="])
        match schema.get("type"):
            case "string":
                return self.chance.choice([*schema.get("enum", ()), *TEXTS])
            case "integer" | "number":
                return self.chance.choice(NUMBERS)
            case "boolean":
                return self.chance.random() < 0.5
            case "array":
                return [self.of(schema["items"], depth - 1) for _ in range(self.chance.randrange(3))]
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                values = schema["additionalProperties"]
                return {self.chance.choice(TEXTS): self.of(values, depth - 1) for _ in range(self.chance.randrange(3))}
            case "object" if depth > 0:
                share = self.chance.choice([0.2, 0.5, 0.9])
                members = schema.get("properties", {}).items()
                return {name: self.of(member, depth - 1) for name, member in members if self.chance.random() < share}
            case _:
                return {}
