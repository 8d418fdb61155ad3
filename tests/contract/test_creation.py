"""Objects that are created by POST: those of others stay, and removed fields are removed by later applies."""

from __future__ import annotations

import pytest

from gitsync.errors import AlreadyExists
from gitsync.objects.manifest import Manifest
from gitsync.plan.ownership import as_applied
from tests.contract.manifests import config_map
from tests.contract.stage import Stage

MANAGER = "gitsync-contract"


def in_namespace(stage: Stage, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": stage.namespace}}


def test_a_create_changes_nothing_that_exists(stage: Stage) -> None:
    others = stage.apply(in_namespace(stage, config_map("a", x="theirs")))
    with pytest.raises(AlreadyExists, match="already exists"):
        stage.cluster.create(in_namespace(stage, config_map("a", x="ours")), manager=MANAGER)
    assert stage.live("ConfigMap", "a") == others


def test_what_was_created_is_removed_by_an_apply_after_the_transfer(stage: Stage) -> None:
    created = stage.cluster.create(in_namespace(stage, config_map("a", x="1", y="1")), manager=MANAGER)
    managers = as_applied(created, MANAGER)
    assert managers is not None
    stage.cluster.set_managed_fields(created, managers, manager=MANAGER)
    live = stage.cluster.apply(in_namespace(stage, config_map("a", x="2")), manager=MANAGER)
    assert live["data"] == {"x": "2"}
    assert [(one["manager"], one["operation"]) for one in live["metadata"]["managedFields"]] == [(MANAGER, "Apply")]
    assert as_applied(live, MANAGER) is None
