"""Namespace controller: create the initial objects of a namespace, and delete its content with it."""

from __future__ import annotations

from collections import Counter

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.base import ControllerContext, SandboxController
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, is_deleting, key_of, kind_of

_ROOT_CA = "kube-root-ca.crt"
_ROOT_CA_NOTE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_FINALIZER = "kubernetes"


class NamespaceContents(SandboxController):
    """Keep the ServiceAccount ``default`` and the ConfigMap ``kube-root-ca.crt`` in each living namespace."""

    name = "namespace-contents"
    watches = frozenset({("", "Namespace"), ("", "ServiceAccount"), ("", "ConfigMap")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark a new namespace, and that of an object which should be there and was deleted or changed."""
        if obj["kind"] == "Namespace":
            if event == "ADDED":
                self.enqueue(key_of(obj))
        elif obj["metadata"]["name"] == _ROOT_CA or (event == "DELETED" and obj["metadata"]["name"] == "default"):
            self.enqueue(("", obj["metadata"]["namespace"]))

    def reconcile(self, key: Key) -> None:
        """Create what is missing."""
        namespace = self.api.get("", "Namespace", *key)
        if namespace is None or is_deleting(namespace):
            return
        name = key[1]
        if self.api.get("", "ServiceAccount", name, "default") is None:
            metadata = {"name": "default", "namespace": name}
            self.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, manager=MANAGER)
        # Client libraries in pods read the certificate from here, through the projected volume of their token.
        known = self.api.get("", "ConfigMap", name, _ROOT_CA)
        wanted = self._root_ca(name)
        if known is None:
            self.api.create(wanted, manager=MANAGER)
        elif known.get("data") != wanted["data"]:
            self.api.update({**known, "data": wanted["data"]}, manager=MANAGER)

    def _root_ca(self, namespace: str) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": _ROOT_CA,
                "namespace": namespace,
                "annotations": {"kubernetes.io/description": _ROOT_CA_NOTE},
            },
            "data": {"ca.crt": self.context.behaviour.ca_certificate},
        }


class NamespaceLifecycle(SandboxController):
    """Delete the content of a namespace that is being deleted, say what is left, and let it go when nothing is."""

    name = "namespace-lifecycle"
    watches = frozenset({("*", "*")})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._going: set[str] = set()

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark a namespace that is being deleted, and one of those in which something changed."""
        namespace = obj["metadata"].get("namespace", "")
        if namespace in self._going:
            self.enqueue(("", namespace))
        elif kind_of(obj) == ("", "Namespace"):
            if event == "DELETED":
                self._going.discard(obj["metadata"]["name"])
            elif is_deleting(obj):
                self._going.add(obj["metadata"]["name"])
                self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        """Delete what is there, then write the conditions or finish."""
        namespace = self.api.get("", "Namespace", *key)
        if (
            namespace is None
            or not is_deleting(namespace)
            or _FINALIZER not in (at(namespace, "spec", "finalizers") or ())
        ):
            return
        # Deleting changes the index that is iterated.
        for obj in list(self.api.everything(key[1])):
            # A second deletion of an object that waits for a finalizer would change nothing.
            if not is_deleting(obj):
                self.api.delete(ObjectRef(*kind_of(obj), *key_of(obj)), uid=uid_of(obj))
        remaining_objects = list(self.api.everything(key[1]))
        if remaining_objects:
            self._report(namespace, remaining_objects)
            return
        kept = [finalizer for finalizer in namespace["spec"]["finalizers"] if finalizer != _FINALIZER]
        # Only this subresource may change spec.finalizers.
        self.api.update({**namespace, "spec": {"finalizers": kept}}, manager=MANAGER, subresource="finalize")

    def _report(self, namespace: Manifest, remaining_objects: list[Manifest]) -> None:
        known = {item["type"]: item for item in at(namespace, "status", "conditions") or ()}
        conditions = []
        for condition in self._conditions(remaining_objects):
            old_condition = known.get(condition["type"], {})
            changed = old_condition.get("status") != condition["status"]
            since = self.context.now() if changed else old_condition["lastTransitionTime"]
            conditions.append({**condition, "lastTransitionTime": since})
        self.write_status(namespace, {**namespace["status"], "conditions": conditions})

    def _conditions(self, remaining_objects: list[Manifest]) -> list[Manifest]:
        kinds = Counter(self._resource(obj) for obj in remaining_objects)
        finalizers = Counter(
            finalizer for obj in remaining_objects for finalizer in obj["metadata"].get("finalizers") or ()
        )
        remaining = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(kinds.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        return [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                False,
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                False,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                False,
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            _condition(
                "NamespaceContentRemaining", True, "SomeResourcesRemain", f"Some resources are remaining: {remaining}"
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                True,
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {held}",
            )
            if held
            else _condition(
                "NamespaceFinalizersRemaining",
                False,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]

    def _resource(self, obj: Manifest) -> str:
        group, kind = kind_of(obj)
        served = self.api.resource(group, kind)
        return f"{served[0] if served else kind.lower()}.{group}"


def _condition(kind: str, holds: bool, reason: str, message: str) -> Manifest:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
