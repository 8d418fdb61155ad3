"""The CustomResourceDefinition and the reference pages are those that the models give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.crds import application_crd
from gitsync.objects.application import ApplicationSpec
from tools.make_reference import ROOT, outputs, schema_of


@pytest.mark.parametrize("file", outputs(), ids=lambda file: file.name)
def test_generated_files_are_current(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == outputs()[file], "run python -m tools.make_reference"


def members(schema: dict[str, Any], path: str = "spec") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from members(member, f"{path}.{name}")
    if schema.get("type") == "array":
        yield from members(schema["items"], f"{path}[]")


def test_the_definition_is_structural_and_explained() -> None:
    version = application_crd()["spec"]["versions"][0]
    found = dict(members(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))
    assert found["spec"] == schema_of(ApplicationSpec)
    assert [path for path, schema in found.items() if "type" not in schema] == []
    described = {path for path, schema in found.items() if schema.get("description")}
    assert {path for path in found if not path.endswith("[]")} - described == set()
    assert found["spec.sync.interval"] | {"description": ""} == {
        "description": "",
        "type": "string",
        "nullable": True,
        "default": "3m",
        "minLength": 1,
        "pattern": "^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$",
    }


def test_links_to_the_reference_lead_somewhere() -> None:
    for name in ("application.md", "risk.md"):
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        (link,) = re.findall(r"\((reference/[a-z]+\.md)\)", page)
        assert (ROOT / "docs" / link).is_file()
