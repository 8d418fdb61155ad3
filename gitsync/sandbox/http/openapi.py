"""OpenAPI v3, from the schema data and the definitions in the store: enough for apply, explain and validation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson

from gitsync.kube.openapi import kubernetes_version, openapi_schemas
from gitsync.sandbox.registry.patching import APPLY, JSON_PATCH, MERGE, STRATEGIC
from gitsync.sandbox.registry.resources import Registry, ServedResource

Document = dict[str, Any]

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# kubectl reads fieldValidation here; without it, it falls back to the OpenAPI v2 document in protobuf.
_COMMON = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_FORCE = {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}}


class OpenApi:
    """The documents of ``/openapi/v3``, kept until the registry changes."""

    def __init__(
        self,
        registry: Registry,
        custom_schema: Callable[[ServedResource], Document],
        is_published: Callable[[ServedResource], bool],
    ) -> None:
        self._registry = registry
        self._custom_schema = custom_schema
        self._is_published = is_published
        self._documents: dict[str, bytes] = {}
        self._generation = -1

    def index(self) -> Document:
        """Return the index: each path with the URL, and the hash, of its document."""
        paths = [".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"]
        for group, versions in self._registry.group_versions().items():
            published = [_path(group, version) for version in versions if self._resources(group, version)]
            if group and published:
                paths.append(f"apis/{group}")
            paths.extend(published)
        return {"paths": {path: {"serverRelativeURL": self.url(path)} for path in sorted(paths)}}

    def url(self, path: str) -> str:
        """Return the URL of a document with the hash of its present content."""
        return f"/openapi/v3/{quote(path)}?hash={self.hash_of(path)}"

    def hash_of(self, path: str) -> str:
        """Return the hash that a client may keep a document by."""
        version = self._version_of(path)
        if version is None:
            return hashlib.sha256(path.encode()).hexdigest().upper()
        resources = "|".join(
            f"{resource.plural}:{self._fingerprint(resource)}" for resource in self._resources(*version)
        )
        return hashlib.sha256(f"{path}|{kubernetes_version()}|{resources}".encode()).hexdigest().upper()

    def document(self, path: str) -> bytes | None:
        """Return a document as JSON, None for a path without one."""
        # Documents are built on demand: most clients read only a few of the groups.
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation
        if path not in self._documents:
            built = self._build(path)
            if built is None:
                return None
            self._documents[path] = orjson.dumps(built)
        return self._documents[path]

    def _resources(self, group: str, version: str) -> list[ServedResource]:
        return [resource for resource in self._registry.in_version(group, version) if self._is_published(resource)]

    def _fingerprint(self, resource: ServedResource) -> str:
        # Built-in schemas change with the version of Kubernetes alone, which is in the hash.
        if not resource.custom:
            return ""
        return hashlib.sha256(orjson.dumps(self._custom_schema(resource))).hexdigest()

    def _version_of(self, path: str) -> tuple[str, str] | None:
        parts = path.split("/")
        if len(parts) == 2 and parts[0] == "api":
            return "", parts[1]
        if len(parts) == 3 and parts[0] == "apis":
            return parts[1], parts[2]
        return None

    def _build(self, path: str) -> Document | None:
        version = self._version_of(path)
        if version is None:
            return _document({}, {}) if path in self.index()["paths"] else None
        resources = self._resources(*version)
        if not resources:
            return None
        schemas: Document = {}
        if any(not resource.custom for resource in resources):
            try:
                schemas.update(openapi_schemas(resources[0].api_version))
            except KeyError:
                schemas.update(openapi_schemas("v1"))
        names = _names(schemas)
        paths: Document = {}
        for resource in resources:
            if resource.custom:
                name = _custom_name(resource)
                schemas.update(_custom_schemas(resource, name, self._custom_schema(resource)))
                names[resource.group, resource.version, resource.kind] = name
            paths.update(_paths(path, resource, names))
        return _document(paths, schemas)


def _document(paths: Document, schemas: Document) -> Document:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{kubernetes_version()}"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _names(schemas: Document) -> dict[tuple[str, str, str], str]:
    """Return the name of the schema of each kind."""
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in schemas.items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }


def _custom_name(resource: ServedResource) -> str:
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _custom_schemas(resource: ServedResource, name: str, schema: Document) -> Document:
    kinds = [{"group": resource.group, "kind": resource.kind, "version": resource.version}]
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_OBJECT_META}"}]},
    }
    own = {**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **properties}}
    own["x-kubernetes-group-version-kind"] = kinds
    core = openapi_schemas("v1")
    meta = {
        key: core[key]
        for key in (
            _OBJECT_META,
            "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
            "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
            "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        )
        if key in core
    }
    return {name: own, **meta}


def _paths(prefix: str, resource: ServedResource, names: dict[tuple[str, str, str], str]) -> Document:
    base = (
        f"/{prefix}/namespaces/{{namespace}}/{resource.plural}"
        if resource.namespaced
        else f"/{prefix}/{resource.plural}"
    )
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    name = names.get((resource.group, resource.version, resource.kind))
    schema: Document = {"$ref": f"#/components/schemas/{name}"} if name else {}
    collection: Document = {}
    item: Document = {}
    if "list" in resource.verbs:
        collection["get"] = _operation("list", kind, schema, [])
    if "create" in resource.verbs:
        body = _body(schema, ("*/*",))
        collection["post"] = _operation("post", kind, schema, _COMMON) | {"requestBody": body}
    if "get" in resource.verbs:
        item["get"] = _operation("get", kind, schema, [])
    if "update" in resource.verbs:
        item["put"] = _operation("put", kind, schema, _COMMON) | {"requestBody": _body(schema, ("*/*",))}
    if "patch" in resource.verbs:
        media = (APPLY, JSON_PATCH, MERGE) if resource.custom else (APPLY, JSON_PATCH, MERGE, STRATEGIC)
        item["patch"] = _operation("patch", kind, schema, [*_COMMON, _FORCE]) | {"requestBody": _body({}, media)}
    if "delete" in resource.verbs:
        item["delete"] = _operation("delete", kind, schema, _COMMON[:1])
    paths = {base: collection}
    if item:
        paths[f"{base}/{{name}}"] = item
    return paths


def _operation(action: str, kind: Document, schema: Document, parameters: list[Any]) -> Document:
    answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
    return {
        "parameters": parameters,
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }


def _body(schema: Document, media: tuple[str, ...]) -> Document:
    return {"required": True, "content": {name: {"schema": schema} for name in media}}
