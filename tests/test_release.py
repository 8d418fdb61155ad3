"""What ``make release`` writes: the version, the changelog and the notes."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml

from gitsync import __version__
from tools.make_release import KUSTOMIZATION, VERSION_FILE, next_version, notes, released, with_version

ROOT = Path(__file__).resolve().parents[1]
TODAY = date(2026, 12, 1)
CHANGELOG = """# Changelog

## Unreleased

### Added

- A thing.

## 0.4.0 \N{EN DASH} 2026-11-25

- An older one.
"""


def test_the_unreleased_lines_become_those_of_the_version() -> None:
    text = released(CHANGELOG, "0.5.0", TODAY)
    assert text.split("## ")[1:3] == ["Unreleased\n\n", "0.5.0 \N{EN DASH} 2026-12-01\n\n#"]
    assert notes(text, "0.5.0") == "### Added\n\n- A thing.\n"
    assert notes(text, "0.4.0") == "- An older one.\n"
    assert released(text.replace("## Unreleased\n", "## Unreleased\n\n- More.\n"), "0.6.0", TODAY).count("\n## ") == 4


def test_a_version_is_released_once_and_with_lines() -> None:
    text = released(CHANGELOG, "0.5.0", TODAY)
    with pytest.raises(ValueError, match="nothing is under Unreleased"):
        released(text, "0.6.0", TODAY)
    with pytest.raises(ValueError, match=r"0\.4\.0 is released already"):
        released(CHANGELOG, "0.4.0", TODAY)


def test_the_version_is_replaced_where_it_is_written() -> None:
    for name in (VERSION_FILE, KUSTOMIZATION):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.count(__version__) == 1
        assert with_version(text, "9.9.9") == text.replace(__version__, "9.9.9")


def test_the_next_version_is_one_of_development() -> None:
    assert next_version("0.5.2") == "0.6.0.dev0"


def test_images_are_named_by_their_digest() -> None:
    lines = re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert lines
    assert [line for line in lines if not re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", line)] == []
    assert len(set(lines)) == 1


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda file: file.name)
def test_workflows_name_actions_by_commit_and_have_no_other_rights(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"]
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", step["uses"]), step
            # what a user types is a value of the environment, never part of a script
            assert "${{" not in step.get("run", ""), step


def test_a_release_gets_provenance_and_its_bill_of_materials() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    actions = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert actions.count("actions/attest-build-provenance") == 2
    assert actions.count("actions/attest-sbom") == 1
    assert {"id-token", "attestations"} <= job["permissions"].keys()
