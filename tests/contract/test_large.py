"""Large inputs: files of several MiB and many definitions in one commit."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, definition, manifest
from tests.contract.stage import Stage, eventually


def test_a_file_of_5_mib_is_synced(stage: Stage) -> None:
    objects = [config_map(f"big{number}", text="x" * 900_000) for number in range(6)]
    stage.sync({"big.yaml": objects})
    assert len(stage.live("ConfigMap", "big5")["data"]["text"]) == 900_000
    eventually(stage, lambda: stage.plan_writes() == [])


def test_a_large_definition_is_synced(stage: Stage) -> None:
    group = f"c{stage.system.rpartition('-')[2]}.example.com"
    large = definition(group)
    fields = {f"field{number}": {"type": "string", "description": "d" * 400} for number in range(2000)}
    large["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= fields
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    widget = manifest(f"{group}/v1", "Widget", "w", spec={"size": 1, "field7": "a"})
    stage.sync({"crd.yaml": large, "widget.yaml": widget})
    assert stage.live("Widget", "w", api=f"{group}/v1")["spec"] == {"size": 1, "field7": "a"}
    eventually(stage, lambda: stage.plan_writes() == [])


def test_60_definitions_and_their_objects_in_one_commit(stage: Stage) -> None:
    group = f"c{stage.system.rpartition('-')[2]}.example.com"
    kinds = [f"Kind{number}" for number in range(60)]
    definitions: list[Manifest] = [definition(group, kind) for kind in kinds]
    for each in definitions:
        stage.remember("CustomResourceDefinition", each["metadata"]["name"], "apiextensions.k8s.io/v1")
    objects = [manifest(f"{group}/v1", kind, "one", spec={"size": 1}) for kind in kinds]
    stage.sync({"crds.yaml": definitions, "objects.yaml": objects}, sync={"postSync": {"onDegraded": "Rollback"}})
    eventually(stage, lambda: stage.plan_writes() == [])
    assert "pinned" not in stage.status()
    eventually(stage, lambda: stage.status()["health"] == "Healthy")
