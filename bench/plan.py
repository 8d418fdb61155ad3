"""Measure the planner: 10,000 live objects with nothing changed, and with one in a hundred changed."""

from __future__ import annotations

import copy
import gc
import time
from typing import Any

from gitsync.merge.field_manager import Write, apply_object
from gitsync.merge.schema import builtin, kind_schema
from gitsync.objects.application import parse_application
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.plan.build import build_plan
from gitsync.plan.normalize import desired_objects
from gitsync.plan.options import options_of
from gitsync.plan.steps import ClusterState, PlanInput

COUNT = 10_000


def deployment(index: int) -> Manifest:
    labels = {"app.kubernetes.io/name": f"web-{index}", "tier": "front"}
    container = {
        "name": "web",
        "image": f"registry.example/web:{index}",
        "args": ["serve", "--port=8080"],
        "env": [{"name": name, "value": str(index)} for name in ("A", "B", "C")],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{index}", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def config_map(index: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"settings-{index}"},
        "data": {f"key-{number}": f"value {index}" for number in range(8)},
    }


def stored(manifest: Manifest, index: int) -> Manifest:
    """Return the object as an API server would hold it: applied by us, with defaults and a status of its own."""
    schema = kind_schema(builtin(), manifest)
    assert schema is not None
    write = Write(FIELD_MANAGER, "2026-01-01T00:00:00Z")
    live: dict[str, Any] = copy.deepcopy(apply_object(None, manifest, schema, write))
    live["metadata"].update(uid=f"uid-{index}", resourceVersion=str(index), creationTimestamp="2026-01-01T00:00:00Z")
    if manifest["kind"] == "Deployment":
        live["metadata"]["generation"] = 1
        live["spec"].update(progressDeadlineSeconds=600, revisionHistoryLimit=10)
        container = live["spec"]["template"]["spec"]["containers"][0]
        container.update(imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log")
        container["ports"][0]["protocol"] = "TCP"
        live["status"] = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    return live


def main() -> None:
    app = parse_application(
        {
            "metadata": {"name": "bench", "namespace": "gitsync"},
            "spec": {"source": {"repoURL": "https://git.example/bench.git"}, "destination": {"namespace": "n"}},
        }
    )
    manifests = [deployment(index) if index % 2 else config_map(index) for index in range(COUNT)]
    desired = desired_objects(app, manifests, lambda of: True)
    live = {ref: stored(manifest, index) for index, (ref, manifest) in enumerate(desired.items())}
    options = {ref: options_of(manifest) for ref, manifest in desired.items()}
    inventory = Inventory({ref: InventoryEntry("v1", live[ref]["metadata"]["uid"]) for ref in desired})

    def schema_of(manifest: Manifest) -> Any:
        return kind_schema(builtin(), manifest)

    def measure(what: str, **given: Any) -> Any:
        gc.collect()  # or the garbage of the setup is collected within the measure
        started = time.perf_counter()
        inputs = PlanInput(app, given["desired"], options, ClusterState(given["live"]), inventory, schema_of)
        plan = build_plan(inputs, "revision", given.get("previous"))
        print(f"{what}: {time.perf_counter() - started:.3f} s, {len(plan.writes)} of {len(plan.changes)} to write")
        return plan

    measure("warm-up", desired=desired, live=live)
    plan = measure("nothing changed, nothing remembered", desired=desired, live=live)
    measure("nothing changed, last plan remembered", desired=desired, live=live, previous=plan)
    edited = dict(live)
    for index, ref in enumerate(list(desired)[: COUNT // 100]):
        edited[ref] = copy.deepcopy(live[ref])
        edited[ref]["metadata"].update(resourceVersion=f"{index}-edited", labels={"tier": "other"})
    measure("1 % changed, nothing remembered", desired=desired, live=edited)
    measure("1 % changed, last plan remembered", desired=desired, live=edited, previous=plan)


if __name__ == "__main__":
    main()
