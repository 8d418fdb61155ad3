"""A small cluster in virtual time for the tests of controllers, and the manifests they use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox import bootstrap
from gitsync.sandbox.admission import Plugins
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers import Controllers
from gitsync.sandbox.storage import ObjectStore
from tests.sandbox.controllers.virtual_clock import VirtualLoop

NAMESPACE = "shop"


class World:
    """An API server, controllers and a clock that only a test advances."""

    def __init__(self, *, start: bool = True, workloads: bool = True) -> None:
        self.loop = VirtualLoop()
        self.store = ObjectStore()
        self.clock = SandboxClock(self.loop, 1_800_000_000.0)
        self.api = SandboxCluster(self.store, self.clock, lambda cluster: Plugins(cluster, cluster.strategy))
        bootstrap.fill(self.api)
        self.controllers = Controllers(self.api, self.clock, workloads=workloads)
        self.writes = 0
        self.api.subscribe(self._count)
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        if start:
            self.controllers.start()
            self.advance(0.1)

    def advance(self, seconds: float) -> None:
        self.loop.advance(seconds)

    def _count(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        self.writes += 1

    def create(self, manifest: Manifest) -> Manifest:
        return self.api.create(manifest, manager="test")

    def get(self, group: str, kind: str, name: str, namespace: str = NAMESPACE) -> Manifest:
        found = self.api.get(group, kind, namespace, name)
        assert found is not None, f"{kind} {namespace}/{name} is absent"
        return found

    def absent(self, group: str, kind: str, name: str, namespace: str = NAMESPACE) -> bool:
        return self.api.get(group, kind, namespace, name) is None

    def list(self, group: str, kind: str, namespace: str = NAMESPACE) -> list[Manifest]:
        return list(self.api.list(group, kind, namespace))

    def pods(self) -> list[Manifest]:
        return self.list("", "Pod")

    def patch(self, group: str, kind: str, name: str, patch: Manifest, namespace: str = NAMESPACE) -> Manifest:
        return self.api.patch(ObjectRef(group, kind, namespace, name), patch, manager="test")

    def delete(self, group: str, kind: str, name: str, namespace: str = NAMESPACE, **options: Any) -> None:
        self.api.delete(ObjectRef(group, kind, namespace, name), **options)

    def events(self, kind: str, name: str = "") -> list[tuple[str, str]]:
        """Return reason and message of the events about objects of a kind."""
        return [
            (event["reason"], event["message"])
            for event in self.list("", "Event")
            if event["involvedObject"]["kind"] == kind and name in ("", event["involvedObject"]["name"])
        ]

    def statuses(self, kind: str, act: Callable[[], object], seconds: float = 5.0) -> list[Manifest]:
        """Return the distinct statuses that objects of a kind go through after an action."""
        seen: list[str] = []

        def note(event: str, obj: Manifest, old: Manifest | None) -> None:
            if obj["kind"] == kind and event != "DELETED":
                text = json.dumps(obj.get("status"), sort_keys=True)
                if seen[-1:] != [text]:
                    seen.append(text)

        self.api.subscribe(note)
        act()
        self.advance(seconds)
        return [json.loads(text) for text in seen]


def conditions(obj_or_status: Manifest) -> list[tuple[str, str, str]]:
    """Return type, status and reason of the conditions, in order."""
    status = obj_or_status.get("status", obj_or_status)
    return [(each["type"], each["status"], each.get("reason", "")) for each in status.get("conditions") or ()]


def state_of(pod: Manifest) -> str:
    """Return the word that tells the state of the first container: running, or a reason."""
    state = at(pod, "status", "containerStatuses", 0, "state") or {}
    return "running" if "running" in state else str(next(iter(state.values()), {}).get("reason", ""))


def template(image: str = "web:1", **spec: Any) -> Manifest:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": image}],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            **spec,
        },
    }


def deployment(image: str = "web:1", replicas: int = 2, name: str = "web", **spec: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def pod(image: str = "web:1", name: str = "p", **spec: Any) -> Manifest:
    made = template(image, **spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **made,
        "metadata": {"name": name, "namespace": NAMESPACE, **made["metadata"]},
    }


def config_map(name: str, **metadata: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE, **metadata}}


def owned_by(owner: Manifest, **members: Any) -> list[Manifest]:
    meta = owner["metadata"]
    return [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"], **members}
    ]


def stateful_set(replicas: int = 3, image: str = "db:1", **spec: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }


def claim_template(name: str = "data", **spec: Any) -> Manifest:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name}, "spec": asked}


def claim(name: str = "data", **spec: Any) -> Manifest:
    made = claim_template(name, **spec)
    metadata = {**made["metadata"], "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": made["spec"]}


def job(image: str = "task:1", name: str = "task", restart: str = "Never", **spec: Any) -> Manifest:
    made = {"spec": {"containers": [{"name": "main", "image": image}], "restartPolicy": restart}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": made, **spec},
    }
