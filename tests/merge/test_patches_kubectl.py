"""The patch types against ``kubectl patch --local``, which applies them with the API server's own code."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import Any

import pytest

from gitsync.merge.schema import builtin
from gitsync.merge.strategic import StrategicError, strategic_merge
from gitsync.merge.values import JsonPatchError, json_patch, merge_patch

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

NAMES = "abcd"


def kubectl(original: Any, kind: str, patch: Any) -> Any:
    """Return the patched object, None where kubectl refuses the patch."""
    command = ["kubectl", "patch", "--local", "-f", "-", "--type", kind, "-p", json.dumps(patch), "-o", "json"]
    done = subprocess.run(command, input=json.dumps(original).encode(), capture_output=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def containers(chance: random.Random) -> list[dict[str, Any]]:
    out = []
    for name in chance.sample(NAMES, chance.randint(0, 4)):
        item: dict[str, Any] = {"name": name, "image": chance.choice("xyz")}
        if chance.random() < 0.3:
            item["env"] = [{"name": each, "value": chance.choice("12")} for each in chance.sample("EFG", 2)]
        out.append(item)
    return out


def deployment(chance: random.Random) -> dict[str, Any]:
    finalizers = [f"x/{each}" for each in chance.sample(NAMES, 2)]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"l": "1", "m": "1"}, "finalizers": finalizers},
        "spec": {"strategy": strategy, "template": {"spec": {"containers": containers(chance)}}},
    }


def strategic_patch(chance: random.Random) -> dict[str, Any]:
    items = containers(chance)
    for item in items:
        if chance.random() < 0.3:
            item["$patch"] = chance.choice(["delete", "delete", "replace"])
    spec: dict[str, Any] = {"containers": items}
    if chance.random() < 0.6:
        order = [item["name"] for item in items if item.get("$patch") != "delete"] + ["e"]
        spec["$setElementOrder/containers"] = [{"name": name} for name in order]
    metadata: dict[str, Any] = {"labels": {chance.choice("lmn"): chance.choice([None, "2"])}}
    finalizers = [f"x/{each}" for each in chance.sample(NAMES, 2)]
    metadata[chance.choice(["finalizers", "$deleteFromPrimitiveList/finalizers"])] = finalizers
    strategy = chance.choice([{}, {"$retainKeys": ["type"], "type": "Recreate"}, {"$patch": "replace", "type": "x"}])
    return {"metadata": metadata, "spec": {"strategy": strategy, "template": {"spec": spec}}}


@pytest.mark.parametrize("seed", range(20))
def test_strategic_patches_of_any_kind(seed: int) -> None:
    chance = random.Random(seed)
    original, patch = deployment(chance), strategic_patch(chance)
    schema = builtin().for_kind("apps", "v1", "Deployment")
    assert schema is not None
    try:
        got = strategic_merge(original, patch, schema)
    except StrategicError:
        got = None
    assert got == kubectl(original, "strategic", patch)


OBJECT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "finalizers": ["x/a", "x/b", "x/c"]},
    "data": {"k": "v"},
}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/finalizers/-1"},
        {"op": "add", "path": "/metadata/finalizers/-4", "value": "x/z"},
        {"op": "add", "path": "/metadata/finalizers/-5", "value": "x/z"},
        {"op": "add", "path": "/metadata/finalizers/+1", "value": "x/z"},
        {"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/2"},
        {"op": "replace", "path": "/metadata/finalizers/7", "value": "x"},
        {"op": "replace", "path": "/data/none", "value": "x"},
        {"op": "replace", "path": "/none/x", "value": "x"},
        {"op": "copy", "from": "/data/none", "path": "/data/x"},
        {"op": "copy", "from": "/none/none", "path": "/data/x"},
        {"op": "test", "path": "/data/none", "value": None},
        {"op": "test", "path": "/none/x", "value": None},
        {"op": "add", "path": "", "value": OBJECT},
        {"op": "replace", "path": "", "value": {**OBJECT, "data": {}}},
        {"op": "add", "path": "data/n", "value": "x"},
        {"op": "move", "from": "/data", "path": "/data/x"},
    ],
)
def test_json_patch_operations(operation: dict[str, Any]) -> None:
    try:
        got = json_patch(OBJECT, [operation])
    except JsonPatchError:
        got = None
    assert got == kubectl(OBJECT, "json", [operation])


def test_a_merge_patch() -> None:
    patch = {"data": {"k": None, "n": "1"}, "metadata": {"finalizers": ["x/z"], "labels": {"a": None, "b": "c"}}}
    assert merge_patch(OBJECT, patch) == kubectl(OBJECT, "merge", patch)
