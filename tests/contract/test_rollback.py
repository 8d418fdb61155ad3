"""A commit is rolled back for a lasting failure, not for objects that are still starting."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import config_map, deployment, manifest
from tests.contract.stage import Stage, eventually


def definition(group: str) -> Manifest:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"widgets.{group}", spec=spec)


def test_a_definition_and_its_objects_are_not_rolled_back(stage: Stage) -> None:
    group = f"c{stage.system.rpartition('-')[2]}.example.com"
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    policy = {"postSync": {"onDegraded": "Rollback"}}
    stage.sync({"first.yaml": config_map("first", a="1")}, sync=policy)
    widgets = [manifest(f"{group}/v1", "Widget", f"w{number}", spec={"size": number}) for number in range(100)]
    commit = stage.commit({"crd.yaml": definition(group), "widgets.yaml": widgets})
    status = stage.synced(commit)
    assert "pinned" not in status
    eventually(stage, lambda: stage.status()["health"] == "Healthy")
    assert stage.live("Widget", "w99", api=f"{group}/v1")["spec"] == {"size": 99}
    assert stage.plan_writes() == []


def test_a_crashing_image_is_rolled_back(stage: Stage) -> None:
    policy = {"postSync": {"onDegraded": "Rollback", "degradedFor": "1s", "healthTimeout": "20s"}}
    good = stage.commit({"web.yaml": deployment(replicas=1)})
    stage.application(sync=policy)
    stage.start()
    stage.synced(good)
    eventually(stage, lambda: stage.status()["revision"].get("good") == good)
    bad = stage.commit({"web.yaml": deployment(replicas=1, image="web:crash")})
    eventually(stage, lambda: stage.status().get("pinned", {}).get("instead") == bad)

    def image() -> str:
        spec = stage.live("Deployment", "web", api="apps/v1")["spec"]["template"]["spec"]
        return str(spec["containers"][0]["image"])

    eventually(stage, lambda: image() == "web:1")
    assert stage.engine is not None
    outcomes = {r.commit.id: r.outcome.value for r in stage.engine.records.history(f"{stage.system}/app")}
    assert outcomes[bad] == "Failed"
