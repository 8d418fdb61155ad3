"""Normalize manifests to the form in which they are compared and applied."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.kube.openapi import encode_texts
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, group_of, has_generated_name, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.options import options_of
from gitsync.plan.tracking import marked

_SERVER_METADATA = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"}
)

# Lists in Lists: bounds the recursion, whose depth authors choose
_NESTED_LISTS = 10


# ``manifest`` keeps the input alive: its id is the key of the cache, and must not become that of another object.
class PreparedObject(NamedTuple):
    """The result of normalizing a manifest for one Application."""

    manifest: Manifest
    of: GroupKind
    is_namespaced: bool
    ref: ObjectRef
    object: Manifest


def desired_objects(
    app: Application,
    manifests: Iterable[Manifest],
    is_namespaced: Callable[[GroupKind], bool],
    before: dict[int, PreparedObject] | None = None,
) -> dict[ObjectRef, Manifest]:
    """
    Return what the Application declares, by ref, ready to be compared and applied.

    Lists are unpacked. Objects of namespaced kinds without a namespace get the destination's; nulls, ``status`` and
    fields that only the API server or a controller sets are dropped; ``stringData`` becomes ``data``; owner marks are
    added. Raise InvalidInput when an object has no name or kind, or is declared twice.

    ``before`` caches the results for the same Application by the identity of the manifest, and is updated: the same
    manifest object gives the same result object.
    """
    objects: dict[ObjectRef, Manifest] = {}
    known = before or {}
    now = {}
    for manifest in _unpacked(manifests, 0):
        prepared = known.get(id(manifest))
        # The scope of a kind may become known later, with its definition.
        if prepared is None or prepared.is_namespaced is not is_namespaced(prepared.of):
            prepared = _placed(app, manifest, is_namespaced)
        if prepared.ref in objects:
            raise InvalidInput("is declared twice", object=str(prepared.ref), hint="remove or rename one of them")
        objects[prepared.ref] = prepared.object
        now[id(manifest)] = prepared
    if before is not None:
        before.clear()
        before.update(now)
    return objects


def _unpacked(manifests: Iterable[Manifest], depth: int) -> Iterator[Manifest]:
    """Yield the objects inside Lists, so that each of them is validated."""
    for manifest in manifests:
        items = manifest.get("items")
        if not str(manifest.get("kind") or "").endswith("List") or not isinstance(items, list):
            yield manifest
        elif depth >= _NESTED_LISTS or not all(isinstance(item, dict) for item in items):
            raise InvalidInput(
                "contains an item that is not an object", object=str(ref_of(manifest)), hint="list complete objects"
            )
        else:
            yield from _unpacked(items, depth + 1)


def _placed(app: Application, manifest: Manifest, is_namespaced: Callable[[GroupKind], bool]) -> PreparedObject:
    of = GroupKind(group_of(str(manifest.get("apiVersion") or "")), str(manifest.get("kind") or ""))
    placed = _in_namespace(app, manifest) if (namespaced := is_namespaced(of)) else _without_namespace(manifest)
    ref = ref_of(placed)
    if not ref.kind or not ref.name or not placed.get("apiVersion"):
        raise InvalidInput("has no apiVersion, kind or metadata.name", object=str(ref))
    # Each apply would create another object.
    if has_generated_name(placed) and not options_of(placed).hooks:
        raise InvalidInput("metadata.generateName is for hooks only", object=str(ref), hint="write metadata.name")
    return PreparedObject(manifest, of, namespaced, ref, marked(app, ref, without_placeholders(declared(placed))))


def _in_namespace(app: Application, manifest: Manifest) -> Manifest:
    metadata = metadata_of(manifest)
    if metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": app.destination.namespace}}


def _without_namespace(manifest: Manifest) -> Manifest:
    metadata = metadata_of(manifest)
    # With one, its ref would differ from that of the live object, which has none.
    return {**manifest, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}


def declared(manifest: Manifest) -> Manifest:
    """Return a manifest from Git without nulls, ``status`` and server metadata, with ``stringData`` as ``data``."""
    result = {key: value for key, value in manifest.items() if key != "status"}
    metadata = metadata_of(result)
    if not _SERVER_METADATA.isdisjoint(metadata):
        result["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    # The API server records ownership of ``stringData`` itself: values would be overwritten without a conflict, and
    # keys that Git removes would stay in ``data``.
    if result.get("kind") == "Secret" and result.get("apiVersion") == "v1" and "stringData" in result:
        result = encode_string_data(result)
    # Server-side apply takes null as a value: it would own the field and store its zero value.
    return {key: without_nulls(value) for key, value in result.items() if value is not None}


def encode_string_data(secret: Manifest) -> Manifest:
    """Return a Secret whose ``stringData`` is base64 in ``data``, as the API server stores it."""
    result = {key: value for key, value in secret.items() if key != "stringData"}
    texts = secret["stringData"]
    if not texts:
        return result
    if not isinstance(texts, dict):
        raise InvalidInput("stringData must be a mapping of strings", object=str(ref_of(secret)))
    for key, text in texts.items():
        if not isinstance(text, str | None):
            raise InvalidInput(
                f"stringData.{key} must be a string", object=str(ref_of(secret)), hint="put the value in quotes"
            )
    # of the same key in both, ``stringData`` wins at the API server too
    return {**result, "data": {**(secret.get("data") or {}), **encode_texts(texts)}}


def without_nulls(value: Any) -> Any:
    """Return the value without null members, at any depth; the same object where it has none."""
    if isinstance(value, dict):
        items = [(key, without_nulls(member)) for key, member in value.items() if member is not None]
        if len(items) == len(value) and all(member is value[key] for key, member in items):
            return value
        return dict(items)
    if isinstance(value, list):
        members = [without_nulls(member) for member in value]
        return value if all(new is old for new, old in zip(members, value, strict=True)) else members
    return value


_ADMISSION: Final = "admissionregistration.k8s.io"


def without_placeholders(manifest: Manifest) -> Manifest:
    """Return the manifest without placeholders, the very same one where it has none."""
    group = group_of(str(manifest.get("apiVersion") or ""))
    strip = _KINDS.get((group, str(manifest.get("kind") or "")))
    return strip(manifest) if strip is not None else manifest


def _cluster_role(role: Manifest) -> Manifest:
    """The aggregation controller replaces ``rules`` as a whole (RBAC, "Aggregated ClusterRoles")."""
    if not role.get("aggregationRule"):
        return role
    return {name: value for name, value in role.items() if name != "rules"}


def _webhooks(configuration: Manifest) -> Manifest:
    hooks = configuration.get("webhooks")
    if not isinstance(hooks, list):
        return configuration
    stripped = [_at(hook, ("clientConfig",), _without_bundle) if isinstance(hook, dict) else hook for hook in hooks]
    is_same = all(new is old for new, old in zip(stripped, hooks, strict=True))
    return configuration if is_same else {**configuration, "webhooks": stripped}


def _definition(definition: Manifest) -> Manifest:
    return _at(definition, ("spec", "conversion", "webhook", "clientConfig"), _without_bundle)


def _api_service(service: Manifest) -> Manifest:
    return _at(service, ("spec",), _without_bundle)


def _without_bundle(config: Manifest) -> Manifest:
    """Return a client configuration without a ``caBundle`` that holds no certificate."""
    bundle = config.get("caBundle")
    if not isinstance(bundle, str) or not _is_blank(bundle):
        return config
    return {name: value for name, value in config.items() if name != "caBundle"}


def _is_blank(bundle: str) -> bool:
    try:
        return not base64.b64decode(bundle, validate=True).strip()
    except (binascii.Error, ValueError):
        return False  # the API server rejects it, with the reason


def _at(value: Manifest, path: tuple[str, ...], change: Callable[[Manifest], Manifest]) -> Manifest:
    """Return a mapping with a nested mapping changed, the very same one where that is absent or stays as it is."""
    if not path:
        return change(value)
    below: Any = value.get(path[0])
    changed = _at(below, path[1:], change) if isinstance(below, dict) else below
    return value if changed is below else {**value, path[0]: changed}


_KINDS: Final[Mapping[tuple[str, str], Callable[[Manifest], Manifest]]] = {
    ("rbac.authorization.k8s.io", "ClusterRole"): _cluster_role,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "MutatingWebhookConfiguration"): _webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
"""How the placeholders of a kind are left out; cert-manager's CA injector and OpenShift fill the bundles."""
