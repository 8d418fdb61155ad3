"""The table of docs/kustomize.md names exactly the fields that the code knows."""

from __future__ import annotations

import re

from gitsync.render.kustomize import plugins
from gitsync.render.kustomize.config import MEMBERS
from gitsync.render.kustomize.kustomization import BUILD_METADATA, FIELDS, REFUSED
from tests.conformance_data import ROOT

TEXT = (ROOT / "docs" / "kustomize.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", TEXT, re.MULTILINE))


def test_every_field_has_a_row_and_every_row_a_field():
    assert list(ROWS) == list(FIELDS)


def test_the_states_are_those_of_the_code():
    assert {field for field, state in ROWS.items() if state == "refused"} == REFUSED
    assert set(ROWS.values()) == {"supported", "differs", "refused"}


def test_every_built_in_kind_is_named():
    section = TEXT.split("## Built-in kinds")[1].split("##")[0]

    assert set(re.findall(r"`(\w+(?:Transformer|Generator))`", section)) == plugins.KINDS


def test_the_members_of_configurations_and_the_build_metadata_are_named():
    (configurations,) = re.findall(r"^\| `configurations`.*$", TEXT, re.MULTILINE)
    (metadata,) = re.findall(r"^\| `buildMetadata`.*$", TEXT, re.MULTILINE)

    assert set(re.findall(r"`(\w+)`", configurations)) - {"configurations"} == set(MEMBERS)
    assert set(re.findall(r"`(\w+)`", metadata)) - {"buildMetadata"} == set(BUILD_METADATA)
