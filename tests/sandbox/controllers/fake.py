"""A small in-memory Api and clock: what controllers need of a server, without fields managers or validation."""

from __future__ import annotations

import copy
import heapq
import itertools
from typing import Any

from gitsync.objects.manifest import Manifest, group_of
from gitsync.sandbox.controllers.meta import timestamp
from gitsync.sandbox.status import ApiError

CLUSTER_SCOPED = {"Namespace", "Node", "PersistentVolume", "StorageClass", "ClusterRole", "CustomResourceDefinition"}
GENERATION = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"}


class VirtualTime:
    """Timers that fire when the test advances the clock."""

    def __init__(self) -> None:
        self._now = 1_800_000_000.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, list[Any]]] = []

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, action: Any) -> Any:
        cell = [action]
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), cell))
        return cell.clear

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, cell = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            for action in cell:
                action()
        self._now = end


class FakeApi:
    def __init__(self, timers: VirtualTime) -> None:
        self.timers = timers
        self.objects: dict[tuple[str, str, str, str], Manifest] = {}
        self.handlers: list[Any] = []
        self.revision = 0
        self.writes = 0
        self.refuse: Any = lambda obj: None

    def _key(self, obj: Manifest) -> tuple[str, str, str, str]:
        meta = obj["metadata"]
        return group_of(obj["apiVersion"]), obj["kind"], meta.get("namespace", ""), meta["name"]

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        return self.objects.get((group, kind, namespace, name))

    def list(self, group: str, kind: str, namespace: str = "", labels: Any = None) -> list[Manifest]:
        return [
            obj
            for key, obj in sorted(self.objects.items())
            if key[:2] == (group, kind)
            and namespace in ("", key[2])
            and all((obj["metadata"].get("labels") or {}).get(k) == v for k, v in (labels or {}).items())
        ]

    def everything(self, namespace: str = "") -> list[Manifest]:
        return [obj for key, obj in sorted(self.objects.items()) if namespace in ("", key[2])]

    def owned_by(self, uid: str) -> list[Manifest]:
        return [
            obj
            for obj in self.objects.values()
            if any(each["uid"] == uid for each in obj["metadata"].get("ownerReferences") or ())
        ]

    def resource(self, group: str, kind: str) -> tuple[str, bool] | None:
        return (kind.lower() + "s", kind not in CLUSTER_SCOPED)

    def subscribe(self, handler: Any) -> None:
        self.handlers.append(handler)

    def _commit(self, event: str, obj: Manifest, old: Manifest | None) -> Manifest:
        self.writes += 1
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        if event == "DELETED":
            del self.objects[self._key(obj)]
        else:
            self.objects[self._key(obj)] = obj
        for handler in self.handlers:
            handler(event, obj, old)
        return obj

    def create(self, manifest: Manifest, *, manager: str) -> Manifest:
        obj = copy.deepcopy(manifest)
        meta = obj["metadata"]
        self.refuse(obj)
        if "generateName" in meta and "name" not in meta:
            meta["name"] = f"{meta['generateName']}{self.revision:05d}"
        if self._key(obj) in self.objects:
            raise ApiError(409, "AlreadyExists", f"{meta['name']} already exists")
        namespace = self.objects.get(("", "Namespace", "", meta.get("namespace", "")))
        if namespace and "deletionTimestamp" in namespace["metadata"]:
            raise ApiError(403, "Forbidden", "terminating")
        meta["uid"] = f"uid-{self.revision}"
        meta["creationTimestamp"] = timestamp(self.timers.now())
        if obj["kind"] in GENERATION:
            meta["generation"] = 1
            obj["status"] = {"phase": "Pending"} if obj["kind"] == "Pod" else {}
        if obj["kind"] == "Namespace":
            obj |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        if obj["kind"] == "PersistentVolumeClaim":
            meta.setdefault("finalizers", ["kubernetes.io/pvc-protection"])
            obj["status"] = {"phase": "Pending"}
        if obj["kind"] == "PersistentVolume":
            meta.setdefault("finalizers", ["kubernetes.io/pv-protection"])
            obj["status"] = {"phase": "Pending"}
        return self._commit("ADDED", obj, None)

    def update(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        old = self.objects.get(self._key(manifest))
        if old is None:
            raise ApiError(404, "NotFound", "not found")
        version = manifest["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "modified")
        new = copy.deepcopy(manifest)
        if subresource == "status":
            meta = dict(old["metadata"])
            if old["kind"] == "Deployment" and "annotations" in new["metadata"]:
                meta["annotations"] = new["metadata"]["annotations"]
            new = {**old, "metadata": meta, "status": new["status"]}
        elif subresource == "scale":
            new = {**old, "spec": {**old["spec"], "replicas": new["spec"]["replicas"]}}
        elif subresource == "finalize":
            new = {**old, "spec": new["spec"]}
            if not new["spec"]["finalizers"] and "deletionTimestamp" in old["metadata"]:
                return self._commit("DELETED", new, old)
        elif subresource == "":
            new = {**new, **({"status": old["status"]} if "status" in old else {})}
        return self._settle(new, old)

    def _settle(self, new: Manifest, old: Manifest) -> Manifest:
        meta = new["metadata"]
        for empty in [key for key in ("ownerReferences", "finalizers") if key in meta and not meta[key]]:
            del meta[empty]
        if "generation" in meta and new.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"]["generation"] + 1
        if new == old:
            return old
        held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or new["kind"] == "Namespace"
        if "deletionTimestamp" in meta and not held:
            return self._commit("DELETED", new, old)
        return self._commit("MODIFIED", new, old)

    def patch(
        self, group: str, kind: str, namespace: str, name: str, patch: Manifest, *, manager: str, subresource: str = ""
    ) -> Manifest:
        old = self.objects.get((group, kind, namespace, name))
        if old is None:
            raise ApiError(404, "NotFound", "not found")
        return self._settle(_merge(copy.deepcopy(old), patch), old)

    def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        old = self.objects[self._key(manifest)]
        return self._settle({**copy.deepcopy(old), **manifest, "metadata": dict(old["metadata"])}, old)

    def delete(
        self,
        group: str,
        kind: str,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        old = self.objects.get((group, kind, namespace, name))
        if old is None or (uid and uid != old["metadata"]["uid"]):
            return
        new = copy.deepcopy(old)
        meta = new["metadata"]
        extra = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(propagation, [])
        if extra and "deletionTimestamp" not in meta:
            meta["finalizers"] = [*(meta.get("finalizers") or ()), *extra]
        grace = 0
        if kind == "Pod" and new["spec"].get("nodeName"):
            grace = new["spec"].get("terminationGracePeriodSeconds", 30) if grace_seconds is None else grace_seconds
        if kind == "Namespace":
            new["status"] = {**new["status"], "phase": "Terminating"}
        held = meta.get("finalizers") or grace or kind == "Namespace"
        if not held:
            self._commit("DELETED", new, old)
            return
        meta.setdefault("deletionTimestamp", timestamp(self.timers.now()))
        if kind != "Namespace":
            meta["deletionGracePeriodSeconds"] = grace
        if new != old:
            if "generation" in meta:
                meta["generation"] += 1
            self._commit("MODIFIED", new, old)


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = _merge(target.get(key), value)
    return target
