"""The CustomResourceDefinition and the reference pages are those that the models give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.agents.model.agent import AgentSpec
from gitsync.agents.model.system import SystemSpec
from gitsync.applicationsets.model import ApplicationSetSpec
from gitsync.crds import definitions
from gitsync.objects.application import ApplicationSpec
from gitsync.objects.manifest import Manifest
from gitsync.objects.parsing import Spec
from tools.make_reference import ROOT, defined_schema, outputs, schema_of


@pytest.mark.parametrize("file", outputs(), ids=lambda file: file.name)
def test_generated_files_are_current(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == outputs()[file], "run python -m tools.make_reference"


_ANY = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
"""What replaces the type of a field that has more than one."""


def _schema(definition: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def members(schema: dict[str, Any], path: str = "spec") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from members(member, f"{path}.{name}")
    if schema.get("type") == "array":
        yield from members(schema["items"], f"{path}[]")


SPECS = (ApplicationSpec, ApplicationSetSpec, AgentSpec, SystemSpec)


@pytest.mark.parametrize(
    ("definition", "model"), list(zip(definitions(), SPECS, strict=True)), ids=["app", "set", "agent", "mas"]
)
def test_the_definitions_are_structural_and_explained(definition: Manifest, model: type[Spec]) -> None:
    found = dict(members(_schema(definition)))
    assert found["spec"] == defined_schema(model)
    assert [path for path, schema in found.items() if not schema.keys() & {"type", *_ANY}] == []
    described = {path for path, schema in found.items() if schema.get("description")}
    assert {path for path in found if not path.endswith("[]")} - described == set()


def test_a_duration_is_a_string_with_its_default() -> None:
    found = dict(members(schema_of(ApplicationSpec)))
    assert found["spec.sync.interval"] | {"description": ""} == {
        "description": "",
        "type": "string",
        "nullable": True,
        "default": "3m",
        "minLength": 1,
        "pattern": "^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$",
    }


@pytest.mark.parametrize("definition", definitions()[:2], ids=["app", "set"])
def test_the_definition_of_what_syncs_sets_no_field_that_an_older_version_would_refuse(definition: Manifest) -> None:
    assert [path for path, schema in members(_schema(definition)) if "default" in schema] == []


def test_links_to_the_reference_lead_somewhere() -> None:
    for name in ("application.md", "risk.md"):
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        (link,) = re.findall(r"\((reference/[a-z]+\.md)\)", page)
        assert (ROOT / "docs" / link).is_file()
