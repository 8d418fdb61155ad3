"""
CustomResourceDefinitions: accept names, serve the resource, and delete its objects with the definition.

The API server does this itself, with or without a controller manager. Custom resources are converted between versions
by a webhook (apiextensions-apiserver/pkg/apiserver/conversion).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gitsync.kube.openapi import Subresource
from gitsync.merge.schema import DEDUCED, schema_from_crd
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.sandbox import crd
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.connections import Review, WebhookError, post_review, webhook_url
from gitsync.sandbox.crd.naming import is_established
from gitsync.sandbox.crd.resource_strategy import version_of
from gitsync.sandbox.errors import internal
from gitsync.sandbox.printers.table import Column
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.registry.conversion import Conversion
from gitsync.sandbox.registry.delete import CRD_CLEANUP, DeleteOptions
from gitsync.sandbox.registry.resources import Address, ServedResource, version_preference
from gitsync.sandbox.registry.scale import declared_paths
from gitsync.sandbox.users import ADMIN

HasService = Callable[[str, str], bool]
"""Whether a Service exists, by namespace and name."""
_GROUP = "apiextensions.k8s.io"
# A real server waits 30 s. Here every other request waits meanwhile.
_SECONDS = 5.0
_SHOWN_SECONDS = 30


def webhook_conversion(spec: Manifest, version: str, has_service: HasService) -> Callable[[Manifest], Manifest] | None:
    """
    Return the conversion of objects to a version of a definition; None where its strategy is not Webhook.

    As a real server does, it calls the webhook for each object alone, also in lists, and raises the 500 of a webhook
    that fails.
    """
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = conversion["webhook"]
    api_version = f"{spec['group']}/{version}"

    def convert(obj: Manifest) -> Manifest:
        if obj["apiVersion"] == api_version:
            return obj
        prefix = f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']}"
        try:
            converted = _call(webhook, obj, api_version, has_service)
        except WebhookError as error:
            raise internal(f"{prefix} failed: {error}") from None
        return _checked(converted, obj, api_version, prefix)

    return convert


def _call(webhook: Mapping[str, Any], obj: Manifest, api_version: str, has_service: HasService) -> list[Any]:
    """Return the objects in a webhook's answer; raise WebhookError."""
    client = webhook["clientConfig"]
    # The first version that the server knows too, in the order of the definition.
    form = next(name for name in webhook["conversionReviewVersions"] if name in ("v1", "v1beta1"))
    uid = str(uuid.uuid4())
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [obj]}
    review: Review = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{form}", "request": request}
    url = webhook_url(client, _SHOWN_SECONDS, has_service)
    response = post_review(client, url, review, _SECONDS).get("response")
    if not isinstance(response, dict):
        raise WebhookError("no response provided")
    if response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        raise WebhookError(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return response.get("convertedObjects") or []


def _checked(converted: list[Any], obj: Manifest, api_version: str, prefix: str) -> Manifest:
    """Return the converted object with the metadata of the original; raise the 500 for one that is another object."""
    if len(converted) != 1:
        raise internal(f"{prefix} returned {len(converted)} objects, expected 1")
    new = converted[0] if isinstance(converted[0], dict) else {}
    problem = _other_type(new, obj, api_version) or _other_identity(metadata_of(new), metadata_of(obj))
    if problem:
        raise internal(f"{prefix} returned invalid object{problem}")
    metadata = {key: value for key, value in metadata_of(obj).items() if key not in ("labels", "annotations")}
    # A webhook may change labels and annotations, in which it keeps what the other version has no members for.
    for member in ("labels", "annotations"):
        if metadata_of(new).get(member):
            metadata[member] = metadata_of(new)[member]
    return {**new, "metadata": metadata}


def _other_type(new: Manifest, obj: Manifest, api_version: str) -> str:
    if new.get("kind") != obj["kind"]:
        return f" at index 0: invalid kind (expected {obj['kind']}, received {new.get('kind', '')})"
    if new.get("apiVersion") != api_version:
        version = new.get("apiVersion", "")
        return f" at index 0: invalid groupVersion (expected {api_version}, received {version})"
    return ""


def _other_identity(new: Manifest, old: Manifest) -> str:
    for member, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if new.get(member) != old.get(member):
            return f": must have the same {word}: {old.get(member, '')} != {new.get(member, '')}"
    return ""


GROUP = "apiextensions.k8s.io"
KIND = "CustomResourceDefinition"
MANAGER = "kube-apiserver"
ESTABLISH_SECONDS = 0.02
PUBLISH_SECONDS = 0.4
"""The OpenAPI documents of a 1.36.2 server had a new group version 0.3 to 0.8 s after its creation."""
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

Served = tuple[Manifest, str]
"""A definition and the version of it that a resource is."""


class Definitions:
    """
    Follow the definitions in a cluster and keep its registry equal to them.

    ``establish_seconds`` is how long a new definition waits before it is established, ``cleanup_seconds`` how
    long a deleted one stays before its objects are deleted. ``publish_seconds`` is how much later than its resource
    the schema of a new version appears in the OpenAPI documents.
    """

    def __init__(self, cluster: SandboxCluster) -> None:
        self.establish_seconds = ESTABLISH_SECONDS
        self.cleanup_seconds = 0.5
        self.publish_seconds = PUBLISH_SECONDS
        self._cluster = cluster
        self._served: dict[tuple[str, str], Served] = {}
        self._published: set[tuple[str, str]] = set()
        cluster.subscribe(self._happened)

    def start(self) -> None:
        """Serve the definitions that are stored already."""
        for definition in list(self._cluster.list(GROUP, KIND)):
            self._happened("ADDED", definition, None)

    def definition_of(self, resource: ServedResource) -> Served | None:
        """Return the definition behind a resource, None for a built-in one."""
        return self._served.get((f"{resource.plural}.{resource.group}", resource.version))

    def is_published(self, resource: ServedResource) -> bool:
        """Return whether the OpenAPI documents have a resource."""
        return not resource.custom or (f"{resource.plural}.{resource.group}", resource.version) in self._published

    def schema_of(self, resource: ServedResource) -> dict[str, Any]:
        """Return the OpenAPI schema of a custom resource."""
        served = self.definition_of(resource)
        return _schema(*served) if served is not None else {}

    def columns_of(self, resource: ServedResource) -> tuple[Column, ...] | None:
        """Return the printer columns of a custom resource, None for a built-in one."""
        served = self.definition_of(resource)
        return crd.columns(*served) if served is not None else None

    def scale_paths(self, resource: ServedResource) -> tuple[str, str, str] | None:
        """Return where a custom resource keeps its scale, None when it is built in or has none."""
        served = self.definition_of(resource)
        return None if served is None else declared_paths(version_of(*served))

    def selectable(self, resource: ServedResource) -> tuple[str, ...]:
        """Return the fields that a field selector may name beyond name and namespace."""
        served = self.definition_of(resource)
        fields = version_of(*served).get("selectableFields") or () if served is not None else ()
        return tuple(field["jsonPath"].lstrip(".") for field in fields)

    def _happened(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        if obj["kind"] != KIND:
            if event == "DELETED":
                self._finish_cleanup(obj)
            return
        name = obj["metadata"]["name"]
        if event == "DELETED":
            self._withdraw(name, obj)
            self._published = {key for key in self._published if key[0] != name}
        elif obj["metadata"].get("deletionTimestamp"):
            self._cluster.clock.call_later(self.cleanup_seconds, lambda: self._clean_up(name))
        elif old is None or old["spec"] != obj["spec"]:
            delay = self.establish_seconds if old is None and not is_established(obj) else 0
            self._cluster.clock.call_later(delay, lambda: self._accept(name))
            if is_established(obj):
                self._serve(obj)
        elif is_established(obj):
            self._serve(obj)

    def _accept(self, name: str) -> None:
        definition = self._cluster.get(GROUP, KIND, "", name)
        if definition is None or definition["metadata"].get("deletionTimestamp"):
            return
        others = list(self._cluster.list(GROUP, KIND))
        status = crd.status_of(definition, others, self._cluster.clock.timestamp())
        if status != definition.get("status"):
            self._cluster.update({**definition, "status": status}, manager=MANAGER, subresource="status")

    def _serve(self, definition: Manifest) -> None:
        spec = definition["spec"]
        name = definition["metadata"]["name"]
        # A new status changes nothing that is served.
        if any(served[0]["spec"] == spec for key, served in self._served.items() if key[0] == name):
            return
        self._withdraw(name, definition)
        for version in sorted(spec["versions"], key=lambda item: version_preference(item["name"])):
            if not version.get("served"):
                continue
            self._served[name, version["name"]] = (definition, version["name"])
            schema = _schema(definition, version["name"])
            self._cluster.registry.add(
                _resource(spec, version, self._has_service),
                crd.strategy(definition, version["name"]),
                schema_from_crd(schema) if schema else DEDUCED,
            )
            # The aggregator reads the documents of a group version that it does not know in a queue of its own. One
            # that it knows is read again at once, so a changed schema appears with the resource.
            if (name, version["name"]) not in self._published:
                self._cluster.clock.call_later(self.publish_seconds, partial(self._publish, name, version["name"]))

    def _has_service(self, namespace: str, name: str) -> bool:
        return self._cluster.get("", "Service", namespace, name) is not None

    def _publish(self, name: str, version: str) -> None:
        if (name, version) in self._served:
            self._published.add((name, version))
            self._cluster.registry.mark_changed()

    def _withdraw(self, name: str, definition: Manifest) -> None:
        for key in [key for key in self._served if key[0] == name]:
            del self._served[key]
        spec = definition["spec"]
        self._cluster.registry.remove(spec["group"], spec["names"]["plural"])

    def _clean_up(self, name: str) -> None:
        """Delete the instances of a terminating definition, then release it."""
        definition = self._cluster.get(GROUP, KIND, "", name)
        if definition is None or CRD_CLEANUP not in (definition["metadata"].get("finalizers") or []):
            return
        spec = definition["spec"]
        storage = f"{spec['group']}/{spec['names']['plural']}"
        collection = self._cluster.store.collection(storage)
        resource = self._cluster.registry.preferred(spec["group"], spec["names"]["kind"])
        for stored in list(collection.select()):
            meta = stored.obj["metadata"]
            if resource is not None and not meta.get("deletionTimestamp"):
                address = Address(resource, meta.get("namespace", ""), meta["name"])
                self._cluster.deleter.delete(address, DeleteOptions(), RequestContext(ADMIN, MANAGER))
        if not collection.objects:
            self._release(name)

    def _finish_cleanup(self, gone: Manifest) -> None:
        """Release a terminating definition when its last instance is gone."""
        group = gone["apiVersion"].rpartition("/")[0]
        for (name, _), (definition, _) in list(self._served.items()):
            spec = definition["spec"]
            if spec["group"] == group and spec["names"]["kind"] == gone["kind"]:
                self._cluster.clock.call_later(0, partial(self._clean_up_if_terminating, name))
                return

    def _clean_up_if_terminating(self, name: str) -> None:
        definition = self._cluster.get(GROUP, KIND, "", name)
        if definition is not None and definition["metadata"].get("deletionTimestamp"):
            self._clean_up(name)

    def _release(self, name: str) -> None:
        definition = self._cluster.get(GROUP, KIND, "", name)
        if definition is None:
            return
        meta = definition["metadata"]
        finalizers = [finalizer for finalizer in meta.get("finalizers") or [] if finalizer != CRD_CLEANUP]
        self._cluster.update({**definition, "metadata": {**meta, "finalizers": finalizers}}, manager=MANAGER)


def _schema(definition: Manifest, version: str) -> dict[str, Any]:
    return at(version_of(definition, version), "schema", "openAPIV3Schema") or {}


def _resource(spec: Manifest, version: Manifest, has_service: HasService) -> ServedResource:
    names = spec["names"]
    group = spec["group"]
    subresources = version.get("subresources") or {}
    subresources_served = []
    verbs = ("get", "patch", "update")
    if "status" in subresources:
        subresources_served.append(Subresource("status", names["kind"], "", "", verbs))
    if "scale" in subresources:
        subresources_served.append(Subresource("scale", "Scale", "autoscaling", "v1", verbs))
    storage = next(item["name"] for item in spec["versions"] if item.get("storage"))
    warning = ""
    if version.get("deprecated"):
        warning = version.get("deprecationWarning") or f"{group}/{version['name']} {names['kind']} is deprecated"
    return ServedResource(
        group=group,
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        list_kind=names.get("listKind") or f"{names['kind']}List",
        namespaced=spec["scope"] == "Namespaced",
        verbs=CUSTOM_VERBS,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(subresources_served),
        storage=f"{group}/{names['plural']}",
        storage_version=f"{group}/{storage}",
        custom=True,
        deprecation=warning,
        from_storage=_conversion(spec, version["name"], has_service),
        to_storage=_conversion(spec, storage, has_service, with_defaults=True),
    )


def _conversion(spec: Manifest, version: str, has_service: HasService, *, with_defaults: bool = False) -> Conversion:
    """Return what makes objects of another version ones of this: by the webhook, if any, and then by the schema."""
    strategy = crd.strategy({"spec": spec}, version)
    fit = strategy.pruned_with_defaults if with_defaults else strategy.prune
    call = webhook_conversion(spec, version, has_service)
    return fit if call is None else lambda obj: fit(call(obj))
