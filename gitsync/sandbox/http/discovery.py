"""Discovery in both forms, and the list of paths."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from gitsync.sandbox.http import checks
from gitsync.sandbox.registry.resources import Registry, Resource

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
    for group, versions in registry.group_versions().items():
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


def _aggregated_resource(resource: Resource) -> Document:
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


def _own_kind(resource: Resource) -> Document:
    """Return a resource's kind; built-in ones take group and version from the enclosing list."""
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
    found = list(registry.in_version(group, version))
    if not found:
        return None
    entries: list[Document] = []
    for resource in found:
        entries.append(_resource(resource))
        entries.extend(_subresources(resource))
    api_version = f"{group}/{version}" if group else version
    document: Document = {"kind": "APIResourceList", "groupVersion": api_version, "resources": entries}
    if group:
        document["apiVersion"] = "v1"
    return document


def _resource(resource: Resource) -> Document:
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


def _storage_version_hash(resource: Resource) -> str:
    """Return the hash of group, version and kind of the version that the resource is stored at."""
    group, _, version = resource.storage_version.rpartition("/")
    version = _ENCODED_VERSIONS.get((group, resource.kind), version)
    digest = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresources(resource: Resource) -> list[Document]:
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
    found = [*_PATHS, *checks.PATHS]
    for name, versions in registry.group_versions().items():
        if name:
            found.append(f"/apis/{name}")
            found.extend(f"/apis/{name}/{version}" for version in versions)
    return {"paths": sorted(found)}
