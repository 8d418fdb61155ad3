"""NamespaceLifecycle: reject new objects in terminating namespaces and the deletion of system namespaces."""

from __future__ import annotations

from gitsync.objects.manifest import metadata_of
from gitsync.sandbox.admission.attributes import CREATE, DELETE, Attributes
from gitsync.sandbox.controllers.client import ControllerClient

_PERMANENT = frozenset({"default", "kube-system", "kube-public"})
_REVIEWS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


def check_namespace(api: ControllerClient, attributes: Attributes) -> None:
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
