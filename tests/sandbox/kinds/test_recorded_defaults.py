from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from tests.conformance_data import conformance_dir, suite
from tests.sandbox.kinds.recordings import NAMESPACE, create, resolved, scenarios

_PIPELINE = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def _cases() -> list[Any]:
    path = conformance_dir() / "apiserver" / "defaults.json"
    if not path.exists():
        return [pytest.param("", {}, id="absent")]
    return [
        pytest.param(step["body"], step["expect"]["body"], id=name)
        for name, steps in scenarios(path)
        for step in steps[:1]
    ]


def _without_admission(obj: dict[str, Any]) -> dict[str, Any]:
    """Take away what admission plugins add to a Pod."""
    if obj["kind"] != "Pod":
        return obj
    obj = json.loads(json.dumps(obj))
    spec = obj["spec"]
    for member in ("serviceAccount", "serviceAccountName", "tolerations", "priority", "preemptionPolicy"):
        spec.pop(member, None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        mounts = container.get("volumeMounts", [])
        container["volumeMounts"] = [mount for mount in mounts if not mount["name"].startswith("kube-api-access-")]
        if not container["volumeMounts"]:
            del container["volumeMounts"]
    spec["volumes"] = [v for v in spec.get("volumes", []) if not v["name"].startswith("kube-api-access-")]
    if not spec["volumes"]:
        del spec["volumes"]
    return obj


def _comparable(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _PIPELINE}
    return _without_admission({**obj, "metadata": metadata})


@pytest.mark.parametrize(("body", "answer"), _cases())
def test_a_created_object_has_the_recorded_defaults(body: Any, answer: Any) -> None:
    suite("apiserver")
    body, answer = resolved(body), resolved(answer)
    group, _, version = body["apiVersion"].rpartition("/")
    try:
        strategy = strategy_for(group, version, body["kind"])
    except KeyError:
        pytest.skip(f"{body['apiVersion']} is not served")
    created = create(strategy, body)
    assert _comparable(created) == _comparable(answer)
    assert strategy.default(created) == created
    if body["kind"] == "Pod":  # admission fills it in
        created["spec"]["serviceAccountName"] = "default"
    assert strategy.validate(created, None, "") == []
    assert created["metadata"].get("namespace", NAMESPACE) == NAMESPACE
