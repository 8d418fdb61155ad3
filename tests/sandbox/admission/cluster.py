"""A cluster in memory for admission: objects by kind, and requests about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.kube.openapi import resources
from gitsync.sandbox.admission import Plugins
from gitsync.sandbox.admission.webhooks import Caller, call_over_https
from gitsync.sandbox.kinds import strategy_for
from gitsync.sandbox.registry.resources import builtin_resource
from gitsync.sandbox.users import ApiUser

Manifest = dict[str, Any]
NAMESPACE = "scene"
JANE = ApiUser("jane", ("system:authenticated",))
_RESOURCES = {(r.group, r.kind): builtin_resource(r) for r in reversed(resources())}


class Objects:
    """The part of Api that admission uses, over a dict."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str, str, str], Manifest] = {}

    def put(self, obj: Manifest) -> None:
        group = obj["apiVersion"].rpartition("/")[0]
        metadata = obj["metadata"]
        self.held[group, obj["kind"], metadata.get("namespace", ""), metadata["name"]] = obj

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        return self.held.get((group, kind, namespace, name))

    def list(
        self, group: str, kind: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Iterator[Manifest]:
        for (of_group, of_kind, of_namespace, _), obj in sorted(self.held.items()):
            if (of_group, of_kind) == (group, kind) and namespace in ("", of_namespace):
                yield obj

    def update(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        assert (manager, subresource) == ("kube-apiserver", "status")
        self.put(manifest)
        return manifest


class World:
    """A namespace with its service account, and the plugins over it."""

    def __init__(self, call: Caller = call_over_https) -> None:
        self.objects = Objects()
        self.warnings: list[str] = []
        self.namespace()
        self.add("v1", "ServiceAccount", name="default")
        self.plugins = Plugins(
            self.objects,  # type: ignore[arg-type]
            lambda resource: strategy_for(resource.group, resource.version, resource.kind),
            call,
        )

    def namespace(self, **labels: str) -> None:
        name = {"kubernetes.io/metadata.name": NAMESPACE}
        metadata = {"name": NAMESPACE, "labels": {**name, **labels}}
        self.objects.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def add(self, api_version: str, kind: str, name: str = "x", **members: Any) -> Manifest:
        obj = manifest(api_version, kind, name, **members)
        self.objects.put(obj)
        return obj

    def admit(
        self, obj: Manifest | None, old: Manifest | None = None, *, dry_run: bool = False, subresource: str = ""
    ) -> Manifest:
        subject = obj if obj is not None else old
        assert subject is not None
        group = subject["apiVersion"].rpartition("/")[0]
        operation = "DELETE" if obj is None else "UPDATE" if old is not None else "CREATE"
        request = {
            "user": JANE,
            "resource": _RESOURCES[group, subject["kind"]],
            "subresource": subresource,
            "dryRun": dry_run,
            "warnings": self.warnings,
        }
        return self.plugins.admit(operation, obj, old, request)


def manifest(api_version: str, kind: str, name: str = "x", **members: Any) -> Manifest:
    """Return a defaulted object in the namespace, where its kind has one."""
    group, _, version = api_version.rpartition("/")
    metadata: Manifest = {"name": name, **members.pop("metadata", {})}
    if _RESOURCES[group, kind].namespaced:
        metadata["namespace"] = NAMESPACE
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}
    status = members.get("status")
    decoded = strategy_for(group, version, kind).default(obj)
    return {**decoded, "status": status} if status is not None else decoded


def pod(name: str = "p", **spec: Any) -> Manifest:
    """Return a pod with one container."""
    return manifest("v1", "Pod", name, spec={"containers": [{"name": "c", "image": "nginx"}], **spec})


def pod_asking(**resources: Any) -> Manifest:
    """Return a pod whose container asks for resources."""
    return pod(containers=[{"name": "c", "image": "nginx", "resources": resources}])
