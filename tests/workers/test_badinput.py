"""Hostile and broken YAML from the conformance suite, rendered from a real repository in a real process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.validation import check_manifests, validate
from gitsync.merge.schema import builtin
from gitsync.objects.record import Commit
from gitsync.ports import Snapshot
from gitsync.source.snapshot import GitTree
from gitsync.workers.pool import RenderPool
from tests.conformance_data import suite
from tests.git_repository import GitRepo

CONFIG_MAP = builtin().for_kind("", "v1", "ConfigMap")
CASES = [case for case in json.loads((suite("badinput") / "cases.json").read_text())["cases"] if case["area"] == "yaml"]
VARIANTS = [
    pytest.param(
        {**case, **variant, "files": {**case.get("files", {}), **variant.get("files", {})}},
        id=f"{case['name']}-{index}",
    )
    for case in CASES
    for index, variant in enumerate(case.get("variants", [{}]))
]


@pytest.fixture(scope="module")
def pool() -> Iterator[RenderPool]:
    pool = RenderPool(1, 30.0, 512)
    yield pool
    pool.close()


def contents(case: dict[str, Any]) -> dict[str, str | bytes | None]:
    """Return the files of a case, with repeated texts spelled out."""
    files: dict[str, str | bytes | None] = {}
    for path, text in case["files"].items():
        is_built = isinstance(text, dict)
        files[path] = (
            text.get("prefix", "") + text["repeat"] * text["times"] + text.get("suffix", "") if is_built else text
        )
    return files | {path: base64.b64decode(text) for path, text in case.get("files_base64", {}).items()}


def refusal(pool: RenderPool, snapshot: Snapshot) -> str:
    """Return why a revision is refused, by the renderer or by the checks of its manifests; empty when it is not."""
    try:
        manifests = pool.render(snapshot, "app").manifests
    except InvalidInput as error:
        return str(error)
    misfits = [f"{one.path}: {one.what}" for one in validate(manifests[0], CONFIG_MAP)] if manifests else []
    return "; ".join((*misfits, *check_manifests(manifests)))


@pytest.mark.parametrize("case", VARIANTS)
def test_hostile_yaml_is_handled(case: dict[str, Any], pool: RenderPool, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    commit = repo.commit(contents(case))
    snapshot = Snapshot(Commit(commit), GitTree(repo.origin, commit), str(repo.origin))
    if case["outcome"] == "accept":
        (manifest,) = pool.render(snapshot, "app").manifests
        assert manifest["data"] == case.get("expected_data", manifest["data"])
        return
    message = refusal(pool, snapshot)
    assert message
    assert len(message) <= 1024
    assert all(any(word.lower() in message.lower() for word in words) for words in case["error_mentions"]), message
