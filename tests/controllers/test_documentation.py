"""The documentation of Application names exactly what the definition has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitsync.crds import application_crd

DOCS = Path(__file__).resolve().parents[2] / "docs" / "application.md"


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the fields that hold a value, as the documentation spells them."""
    members = schema.get("properties")
    if schema.get("type") == "array" and "properties" in schema["items"]:
        yield from leaves(schema["items"], f"{path}[]")
    elif members:
        for name, member in members.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    else:
        yield path


def test_every_field_of_the_spec_is_documented_and_nothing_else() -> None:
    schema = application_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    documented = set(re.findall(r"^\| `([^`]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    assert documented == set(leaves(schema["properties"]["spec"]))
