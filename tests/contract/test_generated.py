"""ConfigMaps with a hash in their name: the Pods of the former revision keep theirs until they are replaced."""

from __future__ import annotations

from gitsync.objects.ref import ObjectRef
from tests.contract.manifests import deployment
from tests.contract.stage import TIMEOUT, Stage
from tests.waiting import until


def commit(stage: Stage, value: str, **spec: object) -> str:
    """Commit a ConfigMap of a generator, and a Deployment whose Pods read it."""
    workload = deployment()
    workload["spec"] |= {"strategy": {"type": "Recreate"}, **spec}
    workload["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "conf"}}]
    generator = f"resources: [web.yaml]\nconfigMapGenerator: [{{name: conf, literals: [v={value}]}}]\n"
    return stage.commit({"kustomization.yaml": generator, "web.yaml": workload})


def names(stage: Stage) -> set[str]:
    """Return the generated ConfigMaps by content."""
    items = stage.raw("GET", stage.path("ConfigMap", ""), None)["items"]
    return {item["data"]["v"] for item in items if item["metadata"]["name"].startswith("conf-")}


def revisions(stage: Stage) -> list[int]:
    """Return the replicas of each revision of the Deployment, as the controller has observed them."""
    assert stage.engine is not None
    ref = ObjectRef("apps", "Deployment", stage.namespace, "web")
    parts = stage.engine.view.dependents(f"{stage.system}/app", ref)
    return [part["spec"]["replicas"] for part in parts if part["kind"] == "ReplicaSet"]


def test_old_pods_keep_their_configuration(stage: Stage) -> None:
    first = commit(stage, "1")
    stage.application()
    stage.start()
    stage.synced(first)
    until(lambda: revisions(stage) == [2], TIMEOUT)
    # a paused Deployment keeps the Pods that it has
    stage.synced(commit(stage, "2", paused=True))
    assert names(stage) == {"1", "2"}
    stage.synced(commit(stage, "3", paused=True))
    until(lambda: names(stage) == {"1", "3"}, TIMEOUT, lambda: str(names(stage)))
    stage.synced(commit(stage, "3", paused=False))
    until(lambda: names(stage) == {"3"}, TIMEOUT, lambda: f"{names(stage)} {revisions(stage)}")
    until(lambda: stage.status()["phase"] == "Synced", TIMEOUT)


def test_earlier_configurations_are_kept_for_a_rollback(stage: Stage) -> None:
    first = commit(stage, "1", replicas=0)
    stage.application(sync={"keepGenerated": 1})
    stage.start()
    stage.synced(first)
    for value in ("2", "3"):
        stage.synced(commit(stage, value, replicas=0))
    # which one of two that were created within one second is the older one is not known
    until(lambda: "3" in names(stage) and len(names(stage)) == 2, TIMEOUT, lambda: str(names(stage)))
