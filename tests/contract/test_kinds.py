"""Every built-in kind: applied, planned again, edited by another manager, corrected, and pruned."""

from __future__ import annotations

import pytest

from tests.contract.manifests import KINDS, Sample, config_map, samples
from tests.contract.stage import Stage, eventually


def is_gone(stage: Stage, sample: Sample, uid: str) -> bool:
    found = stage.get(sample.kind, sample.name, api=sample.api)
    return found is None or found["metadata"]["uid"] != uid or "deletionTimestamp" in found["metadata"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_follows_git(stage: Stage, kind: str) -> None:
    sample = samples(stage.system.rpartition("-")[2])[kind]
    if sample.is_global:
        stage.remember(sample.kind, sample.name, sample.api)
    stage.sync({"keep.yaml": config_map("keep", a="1"), "object.yaml": sample.manifest})
    applied = stage.live(sample.kind, sample.name, api=sample.api)
    assert stage.plan_writes() == []

    stage.patch(sample.kind, sample.name, sample.edit, api=sample.api, manager="kubectl-edit")
    edited = stage.live(sample.kind, sample.name, api=sample.api)

    def is_healed() -> bool:
        live = stage.live(sample.kind, sample.name, api=sample.api)
        return declared(live, sample) != declared(edited, sample) and stage.plan_writes() == []

    eventually(stage, is_healed)
    healed = stage.live(sample.kind, sample.name, api=sample.api)
    assert healed["metadata"]["uid"] == applied["metadata"]["uid"]
    assert declared(healed, sample) == declared(applied, sample)

    stage.synced(stage.commit({"object.yaml": None}))
    eventually(stage, lambda: is_gone(stage, sample, applied["metadata"]["uid"]))


def declared(live: dict, sample: Sample) -> dict:
    """Return the members of a live object that the manifest declares, without what only the API server writes."""
    found = {name: live.get(name) for name in sample.manifest if name not in ("metadata", "stringData")}
    return {**found, "labels": live["metadata"].get("labels"), "data": live.get("data")}
