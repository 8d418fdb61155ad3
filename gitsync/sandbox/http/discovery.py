"""Paths without a resource: discovery in both forms, health checks, the version, and the list of paths."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import orjson

from gitsync.sandbox import errors
from gitsync.sandbox.http.openapi import OpenApi
from gitsync.sandbox.http.responses import discovery_version
from gitsync.sandbox.http.route import RequestRoute
from gitsync.sandbox.http.transport.messages import TEXT, HttpRequest, Response, json_response, text_response
from gitsync.sandbox.registry.resources import Registry, ServedResource

_HOOKS = (
    "apiservice-discovery-controller",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
    "apiservice-registration-controller",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-wait-for-first-sync",
    "bootstrap-controller",
    "crd-informer-synced",
    "generic-apiserver-start-informers",
    "kube-apiserver-autoregistration",
    "peer-endpoint-reconciler-controller",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-config-producer",
    "priority-and-fairness-filter",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "start-apiextensions-controllers",
    "start-apiextensions-informers",
    "start-apiserver-admission-initializer",
    "start-cluster-authentication-info-controller",
    "start-kube-aggregator-informers",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "start-kubernetes-service-cidr-controller",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "start-system-namespaces-controller",
    "storage-object-count-tracker-hook",
    "storage-readiness",
)
_COMMON = ("autoregister-completion", "log", "ping", *(f"poststarthook/{hook}" for hook in _HOOKS))
_CHECKS = {
    "/healthz": (*_COMMON, "etcd", "loopback-serving-certificate"),
    "/livez": (*_COMMON, "etcd", "loopback-serving-certificate"),
    "/readyz": (*_COMMON, "informer-sync", "shutdown"),
}

_CHECK_PATHS = frozenset(
    path for root, names in _CHECKS.items() for path in (root, *(f"{root}/{name}" for name in names))
)
"""Every path that answers ``ok``."""


def _verbose(path: str) -> str:
    """Return what a root check says with ``?verbose``: a line for each check."""
    lines = [f"[+]{name} ok" for name in _CHECKS.get(path, ())]
    return "\n".join([*lines, f"{path.strip('/')} check passed", ""])


_PATHS = (
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"

Document = dict[str, Any]


def aggregated(registry: Registry, version: str, *, core: bool) -> Document:
    """Return the APIGroupDiscoveryList of ``/api`` (``core``) or ``/apis``."""
    items = []
    for group, versions in registry.group_versions(by_name=True).items():
        if bool(group) is core:
            continue
        entries = [
            {"version": name, "resources": _aggregated_resources(registry, group, name), "freshness": "Current"}
            for name in versions
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resources(registry: Registry, group: str, version: str) -> list[Document]:
    return [_aggregated_resource(resource) for resource in registry.in_version(group, version)]


def _aggregated_resource(resource: ServedResource) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": _own_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": _kind(sub.group, sub.version, sub.kind), "verbs": list(sub.verbs)}
            for sub in resource.subresources
        ]
    return entry


def _own_kind(resource: ServedResource) -> Document:
    """Return a resource's kind; built-in ones take group and version from the enclosing list."""
    # A custom resource names its group and version; the real aggregation of CRDs writes them, that of built-in kinds
    # does not.
    if resource.custom:
        return _kind(resource.group, resource.version, resource.kind)
    return _kind("", "", resource.kind)


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}


def core_versions(address: str) -> Document:
    """Return the APIVersions of ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Document:
    """Return the APIGroupList of ``/apis``."""
    groups = [_group(group, versions) for group, versions in registry.group_versions().items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Document | None:
    """Return the APIGroup of ``/apis/NAME``, None for a group that is not served."""
    versions = registry.group_versions().get(name)
    return None if not versions else {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(registry: Registry, group: str, version: str) -> Document | None:
    """Return the APIResourceList of a group version, None for one that is not served."""
    served = list(registry.in_version(group, version))
    if not served:
        return None
    entries: list[Document] = []
    for resource in served:
        entries.append(_resource(resource))
        entries.extend(_subresources(resource))
    api_version = f"{group}/{version}" if group else version
    document: Document = {"kind": "APIResourceList", "groupVersion": api_version, "resources": entries}
    # The list of the core group has no apiVersion, a remnant of its age.
    if group:
        document["apiVersion"] = "v1"
    return document


def _resource(resource: ServedResource) -> Document:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "watch" in resource.verbs:  # what is stored can be watched
        entry["storageVersionHash"] = _storage_version_hash(resource)
    return entry


_ENCODED_VERSIONS = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "v1beta1",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "v1beta1",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): "v1beta1",
}
"""Versions that a real server stores and the sandbox does not serve; only their hash is visible."""


def _storage_version_hash(resource: ServedResource) -> str:
    """Return the hash of group, version and kind of the version that the resource is stored at."""
    group, _, version = resource.storage_version.rpartition("/")
    version = _ENCODED_VERSIONS.get((group, resource.kind), version)
    # apiserver/pkg/endpoints/discovery: StorageVersionHash, the first 8 bytes.
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresources(resource: ServedResource) -> list[Document]:
    entries = []
    for sub in resource.subresources:
        entry: Document = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if (sub.group, sub.version) not in (("", ""), (resource.group, resource.version)):
            entry["group"] = sub.group
            entry["version"] = sub.version
        entries.append(entry)
    return entries


def paths(registry: Registry) -> Document:
    """Return the list of paths of ``/``."""
    known_paths = [*_PATHS, *_CHECK_PATHS]
    for name, versions in registry.group_versions().items():
        if name:
            known_paths.append(f"/apis/{name}")
            known_paths.extend(f"/apis/{name}/{version}" for version in versions)
    return {"paths": sorted(known_paths)}


VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+gitsync",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""The answer of ``/version``: the API it speaks, and that it is this sandbox."""


class Documents:
    """Answer requests for documents. ``address`` is where the sandbox is served, as discovery reports it."""

    def __init__(self, registry: Registry, openapi: OpenApi) -> None:
        self.address = ""
        self._registry = registry
        self._openapi = openapi

    def answer(self, request: HttpRequest, route: RequestRoute | None) -> Response:
        """Return the document of a path, or the 404 in plain text."""
        path = request.path
        registry = self._registry
        if path in _CHECK_PATHS:
            self._require_get(request)
            return text_response(_verbose(path) if "verbose" in request.query else "ok")
        if path.rstrip("/") == "/version":
            self._require_get(request)
            return json_response(VERSION)
        wants = discovery_version(request.headers.get("accept", ""))
        if path.rstrip("/") in ("/api", "/apis"):
            core = path.rstrip("/") == "/api"
            if wants:
                document = aggregated(registry, wants, core=core)
                return json_response(document, content_type=AGGREGATED.format(wants))
            return json_response(core_versions(self.address) if core else group_list(registry))
        if path == "/":
            return json_response(paths(registry))
        if path.startswith("/openapi/v3"):
            return self._openapi_document(request)
        document_of_path: dict[str, Any] | None = None
        if route is not None:
            document_of_path = resource_list(registry, route.group, route.version)
        elif path.startswith("/apis/") and path.count("/") in (2, 3):
            document_of_path = group(registry, path.split("/")[2])
        if document_of_path is None:
            return text_response("404 page not found\n", 404)
        self._require_get(request)
        return json_response(document_of_path)

    def _openapi_document(self, request: HttpRequest) -> Response:
        path = request.path.removeprefix("/openapi/v3").strip("/")
        if not path:
            # The real index comes as text/plain, too.
            return Response(200, orjson.dumps(self._openapi.index()), TEXT)
        document = self._openapi.document(path)
        if document is None:
            return Response(404, b"", TEXT)
        wanted = request.query.get("hash")
        if wanted is not None and wanted != self._openapi.hash_of(path):
            # A client that kept an old URL is led to the present document.
            return Response(301, b"", TEXT, {"Location": self._openapi.url(path)})
        return Response(200, document)

    def _require_get(self, request: HttpRequest) -> None:
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
