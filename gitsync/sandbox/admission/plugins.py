"""The chain of admission plugins in the order of the API server, and those about one namespace, node or claim."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.sandbox.admission import limit_ranger, pod_security, pods, policies, quota, warnings, webhooks
from gitsync.sandbox.admission.attributes import CREATE, DELETE, UPDATE, AdmissionAttributes
from gitsync.sandbox.admission.pod_security import check_labels
from gitsync.sandbox.admission.pods import with_runtime_class
from gitsync.sandbox.admission.webhooks import Caller
from gitsync.sandbox.kinds.pods.resources import amount
from gitsync.sandbox.registry.contract import ControllerClient, Strategy

_PERMANENT = frozenset({"default", "kube-system", "kube-public"})
# Reviews are stored nowhere, so they may be created in a namespace that goes.
_REVIEWS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


def check_namespace(api: ControllerClient, attributes: AdmissionAttributes) -> None:
    """Refuse a new object in a namespace that is being terminated, and the end of a permanent namespace."""
    if attributes.operation == DELETE and attributes.is_of("", "Namespace") and attributes.name in _PERMANENT:
        raise attributes.forbidden("this namespace may not be deleted")
    if attributes.operation != CREATE or not attributes.namespace or attributes.resource.group in _REVIEWS:
        return
    namespace = api.get("", "Namespace", "", attributes.namespace)
    if namespace is None or "deletionTimestamp" not in metadata_of(namespace):
        return
    name = attributes.namespace
    why = f"unable to create new content in namespace {name} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    raise attributes.forbidden(why, causes=[cause])


_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def with_taint(node: Manifest) -> Manifest:
    """Return a new Node that takes no pods until it is ready; who reports it as ready removes the taint."""
    taints = node["spec"].get("taints") or []
    pairs = {(taint.get("key"), taint.get("effect")) for taint in taints}
    if (_NOT_READY["key"], _NOT_READY["effect"]) in pairs:
        return node
    return {**node, "spec": {**node["spec"], "taints": [*taints, dict(_NOT_READY)]}}


GROUP = "storage.k8s.io"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def with_default_class(api: ControllerClient, claim: Manifest) -> Manifest:
    """Return the claim with the newest default class, unless it names one, even an empty one."""
    if "storageClassName" in claim["spec"]:
        return claim
    defaults = [
        storage_class
        for storage_class in api.list(GROUP, "StorageClass")
        if annotations_of(storage_class).get(_IS_DEFAULT) == "true"
    ]
    if not defaults:
        return claim
    # Of several defaults the newest wins, so that an administrator can replace one without a moment without any.
    newest = max(defaults, key=lambda storage_class: str(metadata_of(storage_class).get("creationTimestamp", "")))
    return {**claim, "spec": {**claim["spec"], "storageClassName": metadata_of(newest)["name"]}}


def check_growth(api: ControllerClient, attributes: AdmissionAttributes) -> None:
    """Refuse a bound claim that grows although its class does not allow it."""
    if attributes.operation != UPDATE or attributes.subresource or not attributes.is_of("", "PersistentVolumeClaim"):
        return
    if attributes.obj is None or attributes.old is None:
        return
    # An unbound claim has no volume that would have to grow.
    if (attributes.old.get("status") or {}).get("phase") != "Bound":
        return
    if _size(attributes.obj) <= _size(attributes.old):
        return
    storage_class = api.get(GROUP, "StorageClass", "", attributes.old["spec"].get("storageClassName") or "")
    if storage_class is None or not storage_class.get("allowVolumeExpansion"):
        raise attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )


def _size(claim: Manifest) -> int:
    return amount(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0")).nanos


StrategyOf = Callable[[Any], Strategy]


class Plugins:
    """
    Admit requests by the objects that ``api`` holds: quotas, limits, policies, webhook configurations.

    ``strategy_of`` gives the strategy of a resource: what a webhook changed is defaulted again. ``call`` sends
    a review to a webhook.
    """

    def __init__(self, api: ControllerClient, strategy_of: StrategyOf, call: Caller = webhooks.call_over_https) -> None:
        self._api = api
        self._strategy_of = strategy_of
        self._call = call
        self._rng = random.Random()

    def admit(self, operation: str, obj: Manifest | None, old: Manifest | None, request: Mapping[str, Any]) -> Manifest:
        """Return the object, perhaps changed; raise ApiError to refuse."""
        attributes = AdmissionAttributes.of(operation, obj, old, request)
        # NamespaceLifecycle first: what it refuses no other plugin has to evaluate.
        check_namespace(self._api, attributes)
        if attributes.is_new("", "Pod") and attributes.obj is not None:
            changed = limit_ranger.with_defaults(self._api, attributes.obj, attributes)
            changed = pods.with_service_account(self._api, changed, attributes, self._rng)
            changed = pods.with_priority(self._api, changed, attributes)
            attributes = attributes.changed(with_runtime_class(self._api, changed, attributes))
        if attributes.is_of("", "Pod") and attributes.obj is not None and not attributes.subresource:
            attributes = attributes.changed(pods.with_tolerations(attributes.obj))
        if attributes.is_new("", "Node") and attributes.obj is not None:
            attributes = attributes.changed(with_taint(attributes.obj))
        if attributes.is_new("", "PersistentVolumeClaim") and attributes.obj is not None:
            attributes = attributes.changed(with_default_class(self._api, attributes.obj))
        # Webhooks see the object as the built-in plugins have left it, and validation sees what they made of it.
        attributes = self._mutate(attributes)
        check_growth(self._api, attributes)
        check_labels(self._api, attributes)
        if attributes.obj is not None:
            limit_ranger.check(self._api, attributes.obj, attributes)
            pod_security.check(self._api, attributes.obj, attributes)
            warnings.warn(attributes)
        # Policies before webhooks: a request that CEL refuses makes no call.
        policies.check(self._api, attributes)
        webhooks.validate(self._api, attributes, self._call)
        if attributes.obj is not None:
            # Last, since it counts: nothing after it may refuse the request.
            quota.charge(self._api, attributes.obj, attributes)
        return attributes.subject

    def _mutate(self, attributes: AdmissionAttributes) -> AdmissionAttributes:
        changed = webhooks.mutate(self._api, attributes, self._call)
        if changed is None or changed is attributes.obj:
            return attributes
        strategy = self._strategy_of(attributes.resource)
        # A webhook may add unknown members and leave out defaulted ones.
        return attributes.changed(strategy.default(strategy.prune(changed)))
