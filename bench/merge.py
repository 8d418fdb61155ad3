"""Measure the merge core: applies of a Deployment, quiet and changing, against copying the object once."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from gitsync.merge.field_manager import Write, apply_object, update_object
from gitsync.merge.schema import builtin
from gitsync.merge.strategic import strategic_merge
from gitsync.objects.manifest import Manifest

ROUNDS = 2_000
START = (
    "import time; t = time.perf_counter(); from gitsync.merge.schema import builtin; {} print(time.perf_counter() - t)"
)
USE = "builtin().for_kind('apps', 'v1', 'Deployment');"


def deployment() -> Manifest:
    labels = {"app": "web", "tier": "front"}
    container: dict[str, Any] = {
        "name": "web",
        "image": "registry.example/web:1",
        "args": ["serve", "--port=8080"],
        "env": [{"name": f"NAME_{index}", "value": "x"} for index in range(8)],
        "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9090, "name": "metrics"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}, {"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    volumes = [{"name": "config", "configMap": {"name": "web"}}, {"name": "tmp", "emptyDir": {}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}},
        },
    }


def microseconds(work: Callable[[], object]) -> float:
    """Return the best of five runs of many rounds: the machine is shared."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(ROUNDS // 5):
            work()
        best = min(best, time.perf_counter() - start)
    return best / (ROUNDS // 5) * 1e6


def main() -> None:
    """Print one line per row; a ratio to a deep copy of the object is comparable between machines."""
    schema = builtin().for_kind("apps", "v1", "Deployment")
    assert schema is not None
    write = Write("gitsync", "2026-01-01T00:00:00Z")
    desired = deployment()
    live: Any = copy.deepcopy(apply_object(None, desired, schema, write))
    live["metadata"]["uid"] = "u"
    live["spec"]["progressDeadlineSeconds"] = 600
    changed, smaller = copy.deepcopy(desired), copy.deepcopy(desired)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/web:2"
    del smaller["spec"]["template"]["spec"]["containers"][0]["env"][3]
    edited = copy.deepcopy(live)
    edited["spec"]["replicas"] = 3
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "x"}]}}}}

    yardstick = microseconds(lambda: copy.deepcopy(live))
    rows: dict[str, Callable[[], object]] = {
        "apply, nothing changed": lambda: apply_object(live, desired, schema, write),
        "apply, image changed": lambda: apply_object(live, changed, schema, write),
        "apply, an item given up": lambda: apply_object(live, smaller, schema, write),
        "apply, conflict": lambda: apply_object(live, changed, schema, Write("other")),
        "update, one field": lambda: update_object(live, edited, schema, Write("editor", "t")),
        "create": lambda: update_object(None, desired, schema, Write("creator", "t")),
        "strategic patch": lambda: strategic_merge(live, patch, schema),
    }
    print(f"merge: deep copy of a Deployment of {len(json.dumps(live))} bytes: {yardstick:.0f} us")
    for name, work in rows.items():
        spent = microseconds(work)
        print(f"merge: {name}: {spent:.0f} us, {spent / yardstick:.2f} x the copy")
    for name, use in (("import", ""), ("import and first kind", USE)):
        command = [sys.executable, "-c", START.format(use)]
        spent = min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3))
        print(f"merge: {name}: {spent * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
