"""The recorded drift cases played through the sandbox: the same dry run, the same conflicts, the same refusals."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.server import Sandbox
from tests.conformance_data import suite
from tests.sandbox.http_client import Answer, Client
from tests.waiting import until

CASES = {path.stem: json.loads(path.read_bytes()) for path in sorted(suite("diff").glob("live-*.json"))}
NAMESPACE = "demo"


def _listed(*, defaults: dict[str, Any]) -> dict[str, Any]:
    items = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, **defaults}}
    return {"type": "array", "items": items}


WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.demo.example.com"},
    "spec": {
        "group": "demo.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 1},
                                    "cpu": {"type": "string"},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "list": _listed(defaults={"weight": {"type": "integer", "default": 1}}),
                                    "keyed": {
                                        **_listed(defaults={"v": {"type": "integer", "default": 7}}),
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Sandbox(controllers=False) as sandbox:
        sandbox.call(lambda cluster: cluster.create(WIDGETS, manager="tests"))
        sandbox.call(
            lambda cluster: cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, manager="tests"
            )
        )
        # a definition is established a moment after its creation: the first case may be one of its resources
        until(lambda: sandbox.call(lambda cluster: cluster.resource("demo.example.com", "Widget")))
        yield Client(sandbox)


class Played:
    """A recorded object put back as it was, and the path under which it is asked for."""

    def __init__(self, client: Client, case: dict[str, Any]) -> None:
        self._client = client
        self._desired = case["desired"]
        self._live = case["live"]
        group, _, version = self._desired["apiVersion"].rpartition("/")
        self._kind = (group, self._desired["kind"])
        plural, namespaced = client.sandbox.call(lambda cluster: cluster.resource(*self._kind) or ("", False))
        self._name = self._desired["metadata"]["name"]
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        scope = f"/namespaces/{NAMESPACE}" if namespaced else ""
        self._key = f"{NAMESPACE}/{self._name}" if namespaced else f"/{self._name}"
        self._path = f"{prefix}{scope}/{plural.split('/')[-1]}/{self._name}"

    def __enter__(self) -> Played:
        if self._live is not None:
            self._client.sandbox.call(self._restore)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._client.sandbox.call(lambda cluster: cluster.store.remove(self._storage(cluster), self._key))

    def apply(self, *, force: bool) -> Answer:
        """Ask what the manager ``gitsync`` would change."""
        query = f"&dryRun=All&force={str(force).lower()}"
        return self._client.apply(self._path, self._desired, "gitsync", query)

    def _restore(self, cluster: SandboxCluster) -> None:
        cluster.store.write(self._storage(cluster), self._key, copy.deepcopy(self._live))

    def _storage(self, cluster: SandboxCluster) -> str:
        resource = cluster.registry.preferred(*self._kind)
        assert resource is not None
        return resource.storage


def comparable(answer: dict[str, Any], *, absent: bool) -> dict[str, Any]:
    """Leave out what no two clusters agree on: revisions, times, and the identity of a new object."""
    found = copy.deepcopy(answer)
    metadata = found["metadata"]
    metadata.pop("resourceVersion", None)
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
    if absent:
        del metadata["uid"], metadata["creationTimestamp"]
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_forced_dry_run_answers_as_recorded(client: Client, name: str) -> None:
    case = CASES[name]
    with Played(client, case) as played:
        answer = played.apply(force=True)
    if rejected := case["expect"].get("rejected"):
        assert answer.status == rejected["status"]
        assert answer.json.get("reason") == rejected["reason"]
        assert answer.json["message"] == rejected["message"]
    else:
        absent = case["live"] is None
        assert answer.status in (200, 201), answer.body
        assert comparable(answer.json, absent=absent) == comparable(case["options"]["dry_run"], absent=absent)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "rejected" not in case["expect"]])
def test_conflicts_without_force_are_those_recorded(client: Client, name: str) -> None:
    case = CASES[name]
    with Played(client, case) as played:
        answer = played.apply(force=False)
    expected = case["expect"].get("conflicts", [])
    assert answer.status == (409 if expected else 201 if case["live"] is None else 200), answer.body
    causes = answer.json["details"]["causes"] if expected else []
    found = [(cause["field"], cause["message"]) for cause in causes]
    assert sorted(found) == sorted((each["path"], each["message"]) for each in expected)
